//! The strategic merge compared with `k8s-openapi`'s `DeepMerge`, which another project generated
//! from the same schema.
//!
//! Both agree on fields, maps, keyed lists and replaced lists. `DeepMerge` has no directives and no
//! nulls, and it knows only its own fields. It appends new items of a list, whereas the strategic
//! merge of Kubernetes puts them first. So no overlay here has directives, nulls or unknown fields,
//! and keyed lists are compared without their order. The tests in `kubernetes/` compare order and
//! directives with an API server. Two fields are left out, which `DeepMerge` merges as server-side
//! apply does: `ports`, with the protocol as part of the key, and `nodeSelector`, replaced as a
//! whole.

#![allow(clippy::unwrap_used, reason = "a test fails by panic")]

use injector::kubernetes::merge::merge;
use k8s_openapi::DeepMerge;
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merge_is_a_deep_merge(pod in pod(), overlay in pod()) {
        let mut theirs = typed(&pod);
        theirs.merge_from(typed(&overlay));
        let mut ours = pod;
        merge(&mut ours, overlay).unwrap();
        prop_assert_eq!(
            without_order(serde_json::to_value(typed(&ours)).unwrap()),
            without_order(serde_json::to_value(theirs).unwrap())
        );
    }
}

fn typed(pod: &Value) -> Pod {
    serde_json::from_value(pod.clone()).unwrap()
}

/// Sorts lists of objects by their keys. Lists of scalars, which are replaced, keep their order.
fn without_order(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(without_order).collect();
            if items.iter().all(Value::is_object) {
                items.sort_by_key(|item| {
                    let key = ["mountPath", "key", "name"].iter().find_map(|key| item.get(key));
                    key.map(Value::to_string)
                });
            }
            items.into()
        }
        Value::Object(mut members) => {
            // An empty list equals an absent one.
            members.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
            members.into_iter().map(|(key, value)| (key, without_order(value))).collect()
        }
        scalar => scalar,
    }
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = || named(&["a", "b", "c"], container);
    let volumes = named(&["v", "w", "x"], || {
        let sources = vec![
            json!({"emptyDir": {}}),
            json!({"emptyDir": {"medium": "Memory"}}),
            json!({"configMap": {"name": "c", "optional": true}}),
        ];
        prop::sample::select(sources)
    });
    let secrets = named(&["s", "t", "u"], || Just(json!({})));
    let tolerations = prop::sample::subsequence(vec!["k", "l", "m"], 0..3).prop_map(|keys| {
        keys.into_iter().map(|key| json!({"key": key, "operator": "Exists"})).collect::<Value>()
    });
    let metadata = (words(), words());
    let spec = (containers(), containers(), volumes, secrets, tolerations, any::<bool>());
    (metadata, spec).prop_map(|((labels, annotations), spec)| {
        let (containers, inits, volumes, secrets, tolerations, network) = spec;
        json!({
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {
                "containers": containers,
                "initContainers": inits,
                "volumes": volumes,
                "imagePullSecrets": secrets,
                "tolerations": tolerations,
                "hostNetwork": network,
                "securityContext": {"fsGroup": 7},
            },
        })
    })
}

fn container() -> impl Strategy<Value = Value> {
    let env = named(&["A", "B", "C", "D"], || "[0-9]".prop_map(|value| json!({"value": value})));
    let mounts = prop::sample::subsequence(vec!["/m", "/n", "/o"], 0..3).prop_map(|paths| {
        paths.into_iter().map(|path| json!({"mountPath": path, "name": "v"})).collect::<Value>()
    });
    let args = prop::collection::vec("[a-z]", 1..3);
    let security = prop::sample::select(vec![
        json!({"runAsUser": 5, "capabilities": {"add": ["NET_ADMIN"]}}),
        json!({"capabilities": {"drop": ["ALL"]}, "privileged": false}),
    ]);
    let resources = prop::sample::select(vec![
        json!({"limits": {"cpu": "1500m"}}),
        json!({"limits": {"memory": "1Gi"}, "requests": {"cpu": "10m"}}),
    ]);
    let probe = prop::sample::select(vec![
        json!({"httpGet": {"path": "/", "port": 80}, "periodSeconds": 3}),
        json!({"httpGet": {"port": "http"}, "timeoutSeconds": 9}),
    ]);
    let fields = ("[a-z]:1", env, mounts, args, security, resources, probe);
    (fields, any::<u8>()).prop_map(
        |((image, env, mounts, args, security, resources, probe), some)| {
            let fields = [
                ("image", json!(image)),
                ("env", env),
                ("volumeMounts", mounts),
                ("args", json!(args)),
                ("securityContext", security),
                ("resources", resources),
                ("livenessProbe", probe),
            ];
            let chosen = fields.into_iter().enumerate().filter(|(bit, _)| some >> bit & 1 == 1);
            chosen.map(|(_, (key, value))| (key.to_owned(), value)).collect::<Map<_, _>>().into()
        },
    )
}

/// Generates objects with some of these names in any order, each with fields.
fn named<S: Strategy<Value = Value> + 'static>(
    names: &'static [&'static str],
    fields: impl Fn() -> S + 'static,
) -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(names.to_vec(), 0..=names.len()).prop_shuffle();
    names.prop_flat_map(move |names| {
        let items: Vec<_> = names
            .into_iter()
            .map(|name| {
                fields().prop_map(move |mut item| {
                    item["name"] = name.into();
                    item
                })
            })
            .collect();
        items.prop_map(Value::from)
    })
}

fn words() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", "[0-9]", 0..4).prop_map(|words| json!(words))
}
