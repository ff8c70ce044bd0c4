//! Selection of pods for injection, and the start of their sidecars.

use anyhow::Result;
use e2e::namespace::Namespace;
use serde_json::{Value, json};

use crate::fixture::{Fixture, manifest};

pub(crate) fn labelled_namespace_gets_sidecars(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let labelled = cluster.namespace("labelled", &["istio-injection=enabled"])?;
    apply_examples(&labelled)?;
    for label in ["app=web", "app=client"] {
        let pod = labelled.pod(label)?;
        let init = named(&pod["spec"]["initContainers"], "istio-init");
        assert_eq!(
            init["securityContext"]["capabilities"],
            json!({ "add": ["NET_ADMIN"], "drop": ["ALL"] }),
        );
        let statuses = &pod["status"]["initContainerStatuses"];
        let ended = &named(statuses, "istio-init")["state"]["terminated"];
        assert_eq!(ended["exitCode"], 0, "{ended}");
        let proxy = named(statuses, "istio-proxy");
        assert!(proxy["state"]["running"].is_object(), "{proxy}");
        assert_eq!(proxy["ready"], true, "{proxy}");
    }
    labelled.delete()?;

    let unlabelled = cluster.namespace("unlabelled", &[])?;
    apply_examples(&unlabelled)?;
    for label in ["app=web", "app=client"] {
        assert!(is_plain(&unlabelled.pod(label)?), "a sidecar without a label");
    }
    unlabelled.delete()
}

pub(crate) fn pod_that_opts_out_has_no_sidecar(fixture: &Fixture) -> Result<()> {
    let cluster = fixture.cluster_with_injector()?;
    let labelled = cluster.namespace("opting-out", &["istio-injection=enabled"])?;

    // The webhook's selector excludes the label: the webhook is not called, so there is no warning.
    let warnings = labelled.apply(&pod("by-label", "labels"))?;
    assert_eq!(warnings, "");
    assert!(is_plain(&labelled.get("pod/by-label")?));

    let warnings = labelled.apply(&pod("by-annotation", "annotations"))?;
    assert!(warnings.starts_with("Warning: "), "no warning: {warnings}");
    assert!(warnings.contains("sidecar.istio.io/inject"), "no reason: {warnings}");
    assert!(is_plain(&labelled.get("pod/by-annotation")?));
    labelled.delete()
}

pub(crate) fn apply_examples(namespace: &Namespace<'_>) -> Result<()> {
    namespace.apply(&manifest("examples/web.yaml")?)?;
    namespace.apply(&manifest("examples/client.yaml")?)?;
    namespace.wait_until_available("web")?;
    namespace.wait_until_available("client")
}

fn pod(name: &str, where_it_opts_out: &str) -> String {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "app", "image": "busybox:1.37", "command": ["true"] }] },
    });
    pod["metadata"][where_it_opts_out] = json!({ "sidecar.istio.io/inject": "false" });
    pod.to_string()
}

fn is_plain(pod: &Value) -> bool {
    let containers = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    pod["spec"]["initContainers"].is_null() && containers == 1
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().and_then(|list| list.iter().find(|item| item["name"] == name));
    found.unwrap_or(&Value::Null)
}
