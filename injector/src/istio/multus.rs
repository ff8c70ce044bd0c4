//! The list of networks that Multus reads from a pod.

use serde_json::Value;

/// Adds a network to the list that Multus reads, which is JSON or names separated by commas.
pub(crate) fn with_network(networks: &str, short: &str) -> String {
    if networks.trim().is_empty() {
        return short.to_owned();
    }
    if !networks.contains(']') {
        let listed = networks.split(',').any(|network| network.trim() == short);
        return if listed { networks.to_owned() } else { format!("{networks}, {short}") };
    }
    let Ok(mut list) = serde_json::from_str::<Vec<Value>>(networks) else {
        return networks.to_owned();
    };
    for network in list.iter_mut().filter_map(Value::as_object_mut) {
        go_types::spell_members(&["name", "namespace"], network);
    }
    let (namespace, name) = match short.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, short),
    };
    let same =
        |network: &Value| network["name"] == name && network["namespace"].as_str() == namespace;
    if list.iter().any(same) {
        return networks.to_owned();
    }
    // The rest of the list stays as the user wrote it.
    let end = networks.rfind(']').unwrap_or(networks.len());
    let comma = if list.is_empty() { "" } else { ", " };
    let namespace = namespace.map(|namespace| format!(r#", "namespace": "{namespace}""#));
    let entry = format!(r#"{comma}{{"name": "{name}"{}}}"#, namespace.unwrap_or_default());
    format!("{}{entry}{}", &networks[..end], &networks[end..])
}

/// Removes the network that [`with_network`] added. `None` if it is not the last one, in the form
/// that it was added.
pub(crate) fn without_network(networks: &str, short: &str) -> Option<String> {
    if networks == short {
        return Some(String::new());
    }
    let ends = networks.rfind([',', '[']).into_iter().chain(networks.rfind("{\"name\""));
    let mut starts = ends.chain(networks.rfind(", {"));
    starts.find_map(|start| {
        let end = networks.rfind(']').map_or("", |end| &networks[end..]);
        [0, 1].into_iter().find_map(|kept| {
            let own = networks.get(..start + kept)?.to_owned() + end;
            (with_network(&own, short) == networks).then_some(own)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multus_network_is_added_once_in_the_form_of_the_list() {
        for (networks, expected) in [
            ("", "default/istio-cni"),
            ("a", "a, default/istio-cni"),
            ("a, default/istio-cni", "a, default/istio-cni"),
            ("[]", r#"[{"name": "istio-cni", "namespace": "default"}]"#),
            (
                r#"[{"name": "a"}]"#,
                r#"[{"name": "a"}, {"name": "istio-cni", "namespace": "default"}]"#,
            ),
            (
                r#"[{"Name": "istio-cni", "NAMESPACE": "default"}]"#,
                r#"[{"Name": "istio-cni", "NAMESPACE": "default"}]"#,
            ),
            ("[broken]", "[broken]"),
        ] {
            assert_eq!(with_network(networks, "default/istio-cni"), expected);
        }
    }
}
