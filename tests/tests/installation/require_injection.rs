//! Namespaces in which no pod runs without a sidecar, by the component `require-injection`.

use anyhow::{Context, Result, ensure};
use e2e::manifests::Composition;
use e2e::wait;
use hyper::Request;
use kube::Error;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::injector::Injector;
use crate::pods;

/// Tests every way in which a user who may create pods could evade injection, and every valid pod.
pub(crate) fn required_injection_allows_no_pod_without_sidecar(fixture: &Fixture) -> Result<()> {
    let rendered = fixture.render(Composition::new(&["require-injection"]))?;
    fixture.apply(&rendered)?;
    let _injector = Injector::of_manifests(fixture, &rendered)?;
    let client = fixture.admin.clone();
    for namespace in [REQUIRED, FREE] {
        pods::namespace(fixture, namespace, "istio-injection=enabled")?;
    }
    fixture.kubectl().must(["label", "namespace", REQUIRED, "outrigger.io/injection=required"])?;
    // The rules of the role `edit`; the controller that aggregates it does not run here.
    let role = "--clusterrole=system:aggregate-to-edit";
    let bind = ["create", "rolebinding", "editors", role, "--user=editor"];
    fixture.kubectl().must([&bind[..], &["--namespace", REQUIRED]].concat())?;
    for namespace in [REQUIRED, FREE] {
        fixture.runtime.block_on(pods::until_injected(&client, namespace))?;
    }
    wait::until("the policy is in force", || {
        let said = created(fixture, REQUIRED, &labelled("false"))?.err();
        ensure!(said.as_ref().is_some_and(|said| said.contains(REFUSAL)), "{said:?}");
        anyhow::Ok(())
    })?;

    for (what, pod, reason) in ways_out() {
        let said = created(fixture, REQUIRED, &pod)?.err();
        let said = said.with_context(|| format!("{what}: the pod was admitted"))?;
        ensure!(said.contains(REFUSAL) && said.contains(reason), "{what}: {said}");
        // Namespaces without the label admit these pods.
        let admitted = created(fixture, FREE, &pod)?;
        ensure!(admitted.is_ok(), "{what}: refused elsewhere too: {admitted:?}");
    }
    for (what, pod) in [
        ("a plain pod", pod(&json!({}), &json!({}))),
        ("a pod that asks for it", labelled("true")),
        ("a label that means nothing", labelled("no")),
        ("a native sidecar", annotated("sidecar.istio.io/nativeSidecar", "true")),
        // The injector is called, and finds a record without a sidecar.
        ("a forged record", annotated("sidecar.istio.io/status", STATUS)),
        ("a gateway", annotated("inject.istio.io/templates", "gateway")),
    ] {
        let injected = created(fixture, REQUIRED, &pod)?;
        let injected = injected.map_err(anyhow::Error::msg).with_context(|| what.to_owned())?;
        ensure!(has_proxy(&injected), "{what}: {injected}");
    }
    other_allowed_changes(fixture)
}

/// Checks that a debugging container can be added to an existing pod, and that editors cannot
/// change the namespace's label.
fn other_allowed_changes(fixture: &Fixture) -> Result<()> {
    let create = ["create", "--namespace", REQUIRED, "--as=editor", "--filename", "-"];
    fixture.kubectl().must_with_input(create, &pod(&json!({}), &json!({})).to_string())?;
    let debug = ["debug", "app", "--image=debug:1", "--container=debug"];
    fixture.kubectl().must([&debug[..], &["--namespace", REQUIRED]].concat())?;
    let ephemeral = "--output=jsonpath={.spec.ephemeralContainers[*].name}";
    let found =
        fixture.kubectl().must(["get", "pod", "app", "--namespace", REQUIRED, ephemeral])?;
    ensure!(found == "debug", "ephemeral containers: {found}");
    let label = ["label", "namespace", REQUIRED, "outrigger.io/injection-", "--as=editor"];
    let answer = fixture.kubectl().run(label)?;
    ensure!(!answer.succeeded && answer.stderr.contains("Forbidden"), "{}", answer.stderr);
    Ok(())
}

fn ways_out() -> Vec<(&'static str, Value, &'static str)> {
    let forged = |mut pod: Value| {
        pod["metadata"]["annotations"]["sidecar.istio.io/status"] = STATUS.into();
        let app = pod["spec"]["containers"][0].take();
        let proxy = json!({"name": "istio-proxy", "image": "app:1"});
        pod["spec"]["containers"] = json!([app, proxy]);
        pod
    };
    let opted_out = annotated("sidecar.istio.io/inject", "false");
    let with = |spec: Value| pod(&json!({}), &spec);
    vec![
        ("the label", labelled("false"), "opts out"),
        ("the annotation", opted_out.clone(), "opts out"),
        ("the label with a forged sidecar", forged(labelled("false")), "opts out"),
        ("the annotation with a forged sidecar", forged(opted_out), "opts out"),
        ("the network of the node", with(json!({"hostNetwork": true})), "hostNetwork"),
        (
            "a forged mirror pod",
            {
                let mut pod = annotated("kubernetes.io/config.mirror", "x");
                pod["spec"]["nodeName"] = "node".into();
                pod
            },
            "without a sidecar",
        ),
    ]
}

/// Returns the pod that the API server would create for an editor, or the error.
fn created(fixture: &Fixture, namespace: &str, pod: &Value) -> Result<Result<Value, String>> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?dryRun=All");
    let mut request = Request::post(path).header("Content-Type", "application/json");
    // An editor has no permission to create pods in other namespaces.
    if namespace == REQUIRED {
        request = request.header("Impersonate-User", "editor");
    }
    let request = request.body(pod.to_string().into_bytes())?;
    match fixture.runtime.block_on(fixture.admin.request::<Value>(request)) {
        Ok(pod) => Ok(Ok(pod)),
        Err(Error::Api(status)) => Ok(Err(status.message)),
        Err(error) => Err(error).context("creating a pod"),
    }
}

fn has_proxy(pod: &Value) -> bool {
    let containers = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
    containers.into_iter().flatten().flatten().any(|one| one["name"] == "istio-proxy")
}

fn labelled(inject: &str) -> Value {
    pod(&json!({"labels": {"sidecar.istio.io/inject": inject}}), &json!({}))
}

fn annotated(annotation: &str, value: &str) -> Value {
    pod(&json!({"annotations": {annotation: value}}), &json!({}))
}

fn pod(metadata: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "app"},
        // Otherwise a pod may have no token.
        "spec": {"serviceAccountName": "default",
                 "containers": [{"name": "app", "image": "app:1"}]},
    });
    for (part, more) in [("metadata", metadata), ("spec", spec)] {
        for (key, value) in more.as_object().into_iter().flatten() {
            pod[part][key] = value.clone();
        }
    }
    pod
}

const REQUIRED: &str = "istio-required";
const FREE: &str = "istio-free";
const REFUSAL: &str = "this namespace requires injection (outrigger.io/injection=required)";
const STATUS: &str = r#"{"initContainers":null,"containers":["istio-proxy"],"volumes":null,"imagePullSecrets":null,"revision":"default"}"#;
