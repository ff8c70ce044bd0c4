//! Pods of the tests' own application, and the control of its failures.

use anyhow::{Context, Result, ensure};
use e2e::namespace::Namespace;
use serde_json::{Value, json};

/// Returns a container of the application.
pub(crate) fn app(name: &str, args: &[&str]) -> Value {
    json!({ "name": name, "image": "localhost/outrigger/app:0.1.0", "args": args })
}

/// Returns a user-supplied proxy with the injector's image.
///
/// The API server treats `auto` as an image without a tag and sets the pull policy `Always` before
/// the webhook sees it. No registry exists here.
pub(crate) fn auto_proxy() -> Value {
    json!({ "name": "istio-proxy", "image": "auto", "imagePullPolicy": "IfNotPresent" })
}

/// Returns a pod with annotations and a spec.
pub(crate) fn pod(name: &str, annotations: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name }, "annotations": annotations },
        "spec": spec,
    })
}

/// Makes a container of the application fail at something, until it restarts or [`mend`] is called.
pub(crate) fn fail(shop: &Namespace<'_>, pod: &str, container: &str, what: &str) -> Result<()> {
    let file = format!("/failures/{what}");
    shop.exec(pod, container, &["/bin/busybox", "touch", &file]).map(drop)
}

/// Reverts [`fail`].
pub(crate) fn mend(shop: &Namespace<'_>, pod: &str, container: &str, what: &str) -> Result<()> {
    let file = format!("/failures/{what}");
    shop.exec(pod, container, &["/bin/busybox", "rm", &file]).map(drop)
}

/// Returns the named item of a list.
pub(crate) fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().and_then(|list| list.iter().find(|item| item["name"] == name));
    found.unwrap_or(&Value::Null)
}

/// Returns the proxy of an injected pod, in either list.
pub(crate) fn proxy_of(pod: &Value) -> Result<&Value> {
    let spec = &pod["spec"];
    let lists = ["initContainers", "containers"];
    let mut found = lists.into_iter().map(|list| named(&spec[list], "istio-proxy"));
    found.find(|proxy| proxy.is_object()).context("the pod has no istio-proxy")
}

/// Returns the value of a variable in a container's environment.
pub(crate) fn variable<'a>(container: &'a Value, name: &str) -> Result<&'a str> {
    named(&container["env"], name)["value"].as_str().with_context(|| format!("no variable {name}"))
}

/// Returns the status of a container: readiness, restarts, state.
pub(crate) fn status_of<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let statuses = ["containerStatuses", "initContainerStatuses"];
    let mut found = statuses.into_iter().map(|list| named(&pod["status"][list], container));
    found.find(|status| status.is_object()).unwrap_or(&Value::Null)
}

/// Checks the readiness of containers.
pub(crate) fn expect_ready(pod: &Value, containers: &[&str], ready: bool) -> Result<()> {
    for container in containers {
        let status = status_of(pod, container);
        ensure!(status["ready"] == ready, "{container}: {status}");
    }
    Ok(())
}
