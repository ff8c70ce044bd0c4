//! Generated overlays, merged here and by a strategic merge patch of a Deployment.

use injector::kubernetes::merge::merge;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use crate::Kubernetes;

pub(crate) fn merge_equals_the_api_servers(kubernetes: &Kubernetes) {
    // A few hundred; `PROPTEST_CASES` sets more.
    let config = Config { failure_persistence: None, ..Config::default() };
    let (mut number, mut accepted) = (0, 0);
    let cell = std::cell::RefCell::new((&mut number, &mut accepted));
    let outcome = TestRunner::new(config).run(&(template(), overlay()), |(template, overlay)| {
        let mut counts = cell.borrow_mut();
        *counts.0 += 1;
        let name = format!("d{}", counts.0);
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
        });
        let made = kubernetes.post(DEPLOYMENTS, &deployment);
        let mut made = made.map_err(TestCaseError::fail)?;
        let path = format!("{DEPLOYMENTS}/{name}?dryRun=All");
        let theirs = kubernetes.patch(&path, &json!({"spec": {"template": overlay}}));
        let ours = match merge(&mut made["spec"]["template"], overlay) {
            Ok(_) => kubernetes.put(&path, &made),
            Err(error) => Err(error.to_string()),
        };
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                *counts.1 += 1;
                prop_assert_eq!(&ours["spec"]["template"], &theirs["spec"]["template"]);
            }
            (Err(_), Err(_)) => {}
            (ours, theirs) => {
                prop_assert!(false, "ours: {:?}\ntheirs: {:?}", ours.err(), theirs.err());
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{accepted} of {number} merges were accepted, and equal");
    assert!(accepted > number / 4, "{accepted} of {number} mean something");
}

fn template() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(vec!["a", "b", "c"], 1..4).prop_shuffle();
    let containers = names.prop_flat_map(|names| {
        names.into_iter().map(|name| item(name, true).boxed()).collect::<Vec<_>>()
    });
    let volumes = prop::sample::subsequence(VOLUMES.to_vec(), 3..5).prop_shuffle();
    let secrets = prop::sample::subsequence(vec!["s", "t", "u"], 0..4).prop_shuffle();
    let aliases = prop::sample::subsequence(vec!["10.0.0.1", "10.0.0.2"], 0..3);
    (containers, volumes, secrets, aliases, small_map(), tolerations()).prop_map(
        |(containers, volumes, secrets, aliases, nodes, tolerations)| {
            let volumes = volumes.iter().map(|name| json!({"name": name, "emptyDir": {}}));
            json!({
                "metadata": {"labels": {"app": "web"}, "annotations": {"x": "1"}},
                "spec": {
                    "containers": containers,
                    "volumes": volumes.chain([json!({"name": "v", "emptyDir": {}})]).collect::<Vec<_>>(),
                    "imagePullSecrets": named(&secrets),
                    "hostAliases": aliases.iter().map(|ip| json!({"ip": ip, "hostnames": ["h"]})).collect::<Vec<_>>(),
                    "nodeSelector": nodes,
                    "tolerations": tolerations,
                },
            })
        },
    )
}

/// Generates an overlay with every kind of content, directives included.
fn overlay() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(vec!["a", "b", "c", "d"], 0..4).prop_shuffle();
    let containers = names.prop_flat_map(|names| {
        let items = names.into_iter().map(
            |name| prop_oneof![6 => item(name, false).boxed(), 1 => deleted(json!({"name": name}))],
        );
        items.collect::<Vec<_>>()
    });
    let volumes = prop::sample::subsequence(vec!["v", "w", "x", "y", "z"], 0..5).prop_shuffle();
    let volumes = volumes.prop_flat_map(|names| names.into_iter().map(volume).collect::<Vec<_>>());
    let secrets = prop::sample::subsequence(vec!["r", "s", "t", "u"], 0..4).prop_shuffle();
    let aliases = prop::sample::subsequence(vec!["10.0.0.1", "10.0.0.3"], 0..3);
    let labels = prop::sample::select(vec![
        json!({}),
        json!({"b": "2"}),
        json!({"$patch": "replace", "app": "web", "c": "3"}),
    ]);
    let annotations = prop::sample::select(vec![
        json!({"x": null, "y": "2"}),
        json!({"$patch": "delete"}),
        json!({"$patch": "replace", "z": "3"}),
    ]);
    let labels = (labels, annotations);
    let lists = (containers, volumes, secrets, aliases);
    let fields = (labels, small_map(), tolerations(), any::<u16>());
    (lists, fields).prop_map(
        |((containers, volumes, secrets, aliases), (metadata, nodes, tolerations, chance))| {
            let mut spec = Map::new();
            let mut put = |key: &str, bit: u16, value: Value| {
                let value = if (chance >> bit).is_multiple_of(4) { Value::Null } else { value };
                if chance >> (bit + 1) & 1 == 0 || key == "containers" {
                    spec.insert(key.to_owned(), value);
                }
            };
            put("volumes", 0, replacing(volumes, chance & 0x100 == 0x100 && chance & 0x200 == 0));
            put("imagePullSecrets", 2, named(&secrets));
            put("nodeSelector", 4, nodes);
            put("tolerations", 6, tolerations);
            let aliases = aliases.iter().map(|ip| json!({"ip": ip, "hostnames": ["i", "j"]}));
            put("hostAliases", 8, aliases.collect());
            spec.insert("containers".to_owned(), replacing(containers, chance & 0xf000 == 0));
            let (labels, annotations) = metadata;
            json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec})
        },
    )
}

fn replacing(mut items: Vec<Value>, replace: bool) -> Value {
    if replace {
        items.push(json!({"$patch": "replace"}));
    }
    items.into()
}

fn item(name: &'static str, whole: bool) -> impl Strategy<Value = Value> {
    let env = prop::sample::subsequence(vec!["A", "B", "C", "D"], 0..5).prop_shuffle();
    let env = env.prop_flat_map(move |names| {
        let one = names.into_iter().map(move |name| {
            let set = "[0-9]".prop_map(move |value| json!({"name": name, "value": value})).boxed();
            let field = json!({"name": name, "value": null, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
            if whole {
                return set;
            }
            prop_oneof![4 => set, 1 => deleted(json!({"name": name})), 1 => Just(field)].boxed()
        });
        one.collect::<Vec<_>>()
    });
    let ports = prop::sample::subsequence(vec![80, 81, 82], 0..4).prop_shuffle();
    let mounts = prop::sample::subsequence(vec!["/m", "/n", "/o"], 0..4).prop_shuffle();
    let args = prop::collection::vec("[a-z]", 0..3);
    let probes = [
        Value::Null,
        json!({"httpGet": {"path": "/", "port": 80}, "periodSeconds": 3}),
        json!({"tcpSocket": {"port": 81}, "httpGet": null}),
    ];
    let security = [
        Value::Null,
        json!({"runAsUser": 5, "capabilities": {"add": ["NET_ADMIN"]}}),
        json!({"capabilities": {"drop": ["ALL"]}, "runAsUser": null}),
        json!({"$patch": "replace", "readOnlyRootFilesystem": true}),
        json!({"$retainKeys": ["readOnlyRootFilesystem"], "readOnlyRootFilesystem": true}),
    ];
    let wholesome = if whole { 2 } else { 5 };
    let probe = prop::sample::select(probes[..if whole { 2 } else { 3 }].to_vec());
    let security = prop::sample::select(security[..wholesome].to_vec());
    let resources = prop::sample::select(vec![
        json!({}),
        json!({"limits": {"cpu": "1500m", "memory": "1024Mi"}}),
        // The API server would read a null quantity of a new container as zero.
        json!({"limits": null, "requests": {"memory": "64Mi"}}),
    ]);
    (env, ports, mounts, args, probe, security, resources, any::<u8>()).prop_map(
        move |(env, ports, mounts, args, probe, security, resources, chance)| {
            let mut item = Map::from_iter([("name".to_owned(), json!(name))]);
            let mut put = |key: &str, bit: u8, value: Value| {
                if chance >> bit & 1 == 0 {
                    item.insert(key.to_owned(), value);
                }
            };
            put("env", 0, env.into());
            put("ports", 1, ports.iter().map(|port| json!({"containerPort": port})).collect());
            let mounts = mounts.iter().map(|path| json!({"name": "v", "mountPath": path}));
            put("volumeMounts", 2, mounts.collect());
            put("args", 3, args.into());
            put("readinessProbe", 4, probe);
            put("securityContext", 5, security);
            put("resources", 6, if whole { json!({}) } else { resources });
            if whole || name == "d" || chance & 0x80 == 0 {
                item.insert("image".to_owned(), json!("app:1"));
            }
            Value::Object(item)
        },
    )
}

fn volume(name: &'static str) -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"name": name}),
        json!({"name": name, "emptyDir": {"medium": "Memory"}}),
        json!({"name": name, "emptyDir": null, "configMap": {"name": "c"}}),
        json!({"name": name, "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}),
        json!({"name": name, "$patch": "delete"}),
    ])
}

fn deleted(mut item: Value) -> BoxedStrategy<Value> {
    item["$patch"] = "delete".into();
    Just(item).boxed()
}

fn small_map() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", "[a-c]", 0..3).prop_map(|map| json!(map))
}

fn tolerations() -> impl Strategy<Value = Value> {
    let keys = prop::sample::subsequence(vec!["a", "b", "c"], 0..3);
    keys.prop_map(|keys| keys.iter().map(|key| json!({"key": key, "operator": "Exists"})).collect())
}

fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name})).collect()
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const VOLUMES: [&str; 4] = ["w", "x", "y", "z"];
