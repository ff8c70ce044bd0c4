//! Volumes and mounts that both the pod and an overlay define.
//!
//! A merge by name would leave both sources in one volume, or two mounts at one path. Kubernetes
//! rejects such a pod.

use std::collections::{HashMap, HashSet};

use reason::{Reason, words};
use serde_json::{Map, Value};

use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS};

/// Keeps the sources of the pod's own volumes. Of two volumes or mounts of an overlay with the same
/// key, keeps the later one, which is the one from an annotation.
pub fn settle(overlay: &mut Value, pod: &Value) -> Vec<Reason> {
    let Some(spec) = overlay.get_mut("spec").and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    for list in [CONTAINERS, INIT_CONTAINERS] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
                keep_last(mounts, "mountPath");
            }
        }
    }
    let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    keep_last(volumes, "name");
    let places: HashMap<_, _> = volumes
        .iter()
        .enumerate()
        .rev()
        .map(|(index, volume)| (volume["name"].clone(), index))
        .collect();
    let own = pod["spec"]["volumes"].as_array().into_iter().flatten();
    own.filter_map(|own| {
        let same = volumes.get_mut(*places.get(&own["name"])?)?.as_object_mut()?;
        keep_the_default(own, same);
        let effect = match () {
            () if has_another_source(own, same) => {
                same.retain(|field, _| field == "name");
                ""
            }
            () if changes_source(own, same) => ", whose fields are added to it",
            () => return None,
        };
        let name = own["name"].as_str().unwrap_or_default();
        let message = format!("volume {name} of the pod has the name of an injected one{effect}");
        Some(Reason::new(words::OWN_VOLUME, message))
    })
    .collect()
}

/// Keeps a user volume's empty `emptyDir` if the overlay's volume has no source. The API server
/// defaults such a volume to `emptyDir`, and reinjection must not remove it.
fn keep_the_default(own: &Value, volume: &mut Map<String, Value>) {
    let is_default = own["emptyDir"].as_object().is_some_and(Map::is_empty);
    let has_none = volume.iter().all(|(field, source)| field == "name" || source.is_null());
    if is_default && has_none {
        volume.remove("emptyDir");
    }
}

/// True if the pod's volume has a source that the overlay's volume does not set, and the overlay's
/// has a source too.
fn has_another_source(own: &Value, volume: &Map<String, Value>) -> bool {
    let sources = || volume.iter().filter(|(field, _)| *field != "name");
    let directed = sources().any(|(field, _)| field.starts_with('$'));
    let has_one = sources().any(|(_, source)| !source.is_null());
    let own = own.as_object().into_iter().flatten();
    let mut others =
        own.filter(|(field, source)| !source.is_null() && !volume.contains_key(*field));
    !directed && has_one && others.next().is_some()
}

/// True if a source of the overlay's volume changes the same source of the pod's volume.
fn changes_source(own: &Value, volume: &Map<String, Value>) -> bool {
    let mut sources = volume.iter().filter_map(|(kind, source)| Some((kind, source.as_object()?)));
    sources.any(|(kind, source)| {
        let own = own[kind].as_object();
        own.is_some_and(|own| source.iter().any(|(field, value)| own.get(field) != Some(value)))
    })
}

/// Keeps the last of the items with the same key, in the position of the first.
fn keep_last(items: &mut Vec<Value>, key: &str) {
    let mut names = HashSet::with_capacity(items.len());
    if items.iter().filter_map(|item| name(item, key)).all(|name| names.insert(name)) {
        return;
    }
    let mut places = HashMap::new();
    let mut kept: Vec<Value> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        let name = name(&item, key).map(str::to_owned);
        match name.map(|name| *places.entry(name).or_insert(kept.len())) {
            Some(place) if place < kept.len() => kept[place] = item,
            _ => kept.push(item),
        }
    }
    *items = kept;
}

/// Returns the merge key of an item; `None` for a directive.
fn name<'a>(item: &'a Value, key: &str) -> Option<&'a str> {
    if item.get("$patch").is_some() { None } else { item.get(key)?.as_str() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volume_source_of_the_pod_replaces_the_injected_one() {
        let in_memory = json!({"emptyDir": {"medium": "Memory"}});
        let own_in_memory = json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}});
        let replaced = json!({"$patch": "replace", "emptyDir": {}});
        let only_csi = json!({"emptyDir": null, "csi": {}});
        for (own, overlay, settled, warned) in [
            (json!({"configMap": {}}), in_memory.clone(), json!({}), true),
            (json!({"emptyDir": {}}), in_memory.clone(), in_memory.clone(), true),
            (own_in_memory, in_memory.clone(), in_memory, false),
            (json!({"emptyDir": {}}), only_csi.clone(), only_csi, false),
            (json!({"csi": {}}), json!({"emptyDir": null}), json!({"emptyDir": null}), false),
            (json!({"csi": {}}), replaced.clone(), replaced, false),
            (json!({}), json!({"emptyDir": {}}), json!({"emptyDir": {}}), false),
        ] {
            let named = |mut volume: Value| {
                volume["name"] = "v".into();
                json!({"spec": {"volumes": [volume]}})
            };
            let mut given = named(overlay);
            let warnings = settle(&mut given, &named(own.clone()));
            assert_eq!(given, named(settled.clone()), "{own}");
            assert_eq!(warnings.len(), usize::from(warned), "{own}");
        }
    }

    #[test]
    fn volume_source_default_of_the_api_server_stays() {
        let of = |volume: Value| json!({"spec": {"volumes": [volume]}});
        let mut overlay = of(json!({"name": "v", "emptyDir": null}));
        let warnings = settle(&mut overlay, &of(json!({"name": "v", "emptyDir": {}})));
        assert_eq!((overlay, warnings.len()), (of(json!({"name": "v"})), 0));
        let another = of(json!({"name": "v", "emptyDir": null, "csi": {}}));
        let mut overlay = another.clone();
        settle(&mut overlay, &of(json!({"name": "v", "emptyDir": {}})));
        assert_eq!(overlay, another);
    }

    #[test]
    fn later_volume_of_the_same_name_is_used() {
        let volume = |name: &str, source: &str| json!({"name": name, source: {}});
        let mount = |path: &str, name: &str| json!({"mountPath": path, "name": name});
        let mut overlay = json!({"spec": {
            "containers": [{"volumeMounts": [mount("/a", "x"), mount("/b", "x"), mount("/a", "y"), {}, {}]}],
            "volumes": [
                volume("a", "emptyDir"), volume("b", "csi"), volume("a", "csi"), volume("a", "nfs"),
                {"name": "b", "$patch": "delete"},
            ],
        }});
        settle(&mut overlay, &json!({}));
        let expected = json!({"spec": {
            "containers": [{"volumeMounts": [mount("/a", "y"), mount("/b", "x"), {}, {}]}],
            "volumes": [volume("a", "nfs"), volume("b", "csi"), {"name": "b", "$patch": "delete"}],
        }});
        assert_eq!(overlay, expected);
    }
}
