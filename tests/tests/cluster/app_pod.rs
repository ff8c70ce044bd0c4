//! Pods of the stories' own application, and what they can be told.

use anyhow::{Context, Result, ensure};
use e2e::namespace::Namespace;
use serde_json::{Value, json};

/// A container of the application.
pub(crate) fn app(name: &str, args: &[&str]) -> Value {
    json!({ "name": name, "image": "outrigger/app:0.1.0", "args": args })
}

/// The user's own proxy, with the injector's image.
///
/// The API server takes `auto` for an image without a tag, which it would pull always, before the
/// webhook sees it; and there is nobody to pull from.
pub(crate) fn auto_proxy() -> Value {
    json!({ "name": "istio-proxy", "image": "auto", "imagePullPolicy": "IfNotPresent" })
}

/// A pod with annotations and a spec.
pub(crate) fn pod(name: &str, annotations: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name }, "annotations": annotations },
        "spec": spec,
    })
}

/// Makes a container of the application fail at something, until it starts anew or [`mend`]s.
pub(crate) fn fail(shop: &Namespace<'_>, pod: &str, container: &str, what: &str) -> Result<()> {
    let file = format!("/failures/{what}");
    shop.exec(pod, container, &["/bin/busybox", "touch", &file]).map(drop)
}

/// Takes [`fail`] back.
pub(crate) fn mend(shop: &Namespace<'_>, pod: &str, container: &str, what: &str) -> Result<()> {
    let file = format!("/failures/{what}");
    shop.exec(pod, container, &["/bin/busybox", "rm", &file]).map(drop)
}

/// The named item of a list.
pub(crate) fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().and_then(|list| list.iter().find(|item| item["name"] == name));
    found.unwrap_or(&Value::Null)
}

/// The proxy of an injected pod, wherever it stands.
pub(crate) fn proxy_of(pod: &Value) -> Result<&Value> {
    let spec = &pod["spec"];
    let lists = ["initContainers", "containers"];
    let mut found = lists.into_iter().map(|list| named(&spec[list], "istio-proxy"));
    found.find(|proxy| proxy.is_object()).context("the pod has no istio-proxy")
}

/// The value of a variable in a container's list.
pub(crate) fn variable<'a>(container: &'a Value, name: &str) -> Result<&'a str> {
    named(&container["env"], name)["value"].as_str().with_context(|| format!("no variable {name}"))
}

/// The state of a container: readiness, restarts, what runs.
pub(crate) fn status_of<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let statuses = ["containerStatuses", "initContainerStatuses"];
    let mut found = statuses.into_iter().map(|list| named(&pod["status"][list], container));
    found.find(|status| status.is_object()).unwrap_or(&Value::Null)
}

/// Whether containers say `ready` as expected.
pub(crate) fn expect_ready(pod: &Value, containers: &[&str], ready: bool) -> Result<()> {
    for container in containers {
        let status = status_of(pod, container);
        ensure!(status["ready"] == ready, "{container}: {status}");
    }
    Ok(())
}
