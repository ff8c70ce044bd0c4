//! Calls of the webhook by a client in the cluster's network, bypassing the API server.

use anyhow::{Context, Result, ensure};
use e2e::manifests::Composition;
use http_body_util::BodyExt;
use hyper::Request;
use kube::client::Body;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::injector::Injector;

/// The answer is the patch of a pod. The call writes nothing, and the answer has no secret.
pub(crate) fn anonymous_call_changes_nothing_and_reveals_no_secret(
    fixture: &Fixture,
) -> Result<()> {
    let rendered = fixture.render(Composition::new(&[]))?;
    fixture.apply(&rendered)?;
    let injector = Injector::of_manifests(fixture, &rendered)?;
    fixture.until_published("istio-sidecar-injector")?;
    let service = fixture.get("service", "sidecar-injector")?;
    let address = service["spec"]["clusterIP"].as_str().context("a Service has an address")?;
    let mut config = Config::new(format!("https://{address}:443").parse()?);
    // This caller does not know the CA.
    config.accept_invalid_certs = true;
    // The client needs a runtime when it is created.
    let client = fixture.runtime.block_on(async { Client::try_from(config) })?;
    let ask = |method: &str, path: &str, body: &Value| -> Result<(u16, String)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", "application/json")
            .body(Body::from(body.to_string().into_bytes()))?;
        fixture.runtime.block_on(async {
            let answer = client.send(request).await.context("calling the webhook")?;
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await.context("reading an answer")?.to_bytes();
            Ok((code, String::from_utf8_lossy(&body).into_owned()))
        })
    };

    let before = state(fixture, &injector)?;
    let mut answers = String::new();
    for namespace in ["istio-system", "kube-system", "default", "nowhere"] {
        let (code, answer) = ask("POST", "/inject", &review(namespace))?;
        ensure!(code == 200, "{namespace}: {code} {answer}");
        answers += &answer;
    }
    ensure!(answers.contains("\"patch\""), "no pod was injected: {answers}");
    for (method, path) in [
        ("GET", "/inject"),
        ("POST", "/"),
        ("POST", "/metrics"),
        ("GET", "/metrics"),
        ("GET", "/debug/pprof/"),
        ("POST", "/inject/../metrics"),
    ] {
        let (code, answer) = ask(method, path, &review("default"))?;
        // A path that is not normalised is redirected to the normalised one.
        ensure!(
            (300..500).contains(&code) && answer.len() < 200,
            "{method} {path}: {code} {answer}"
        );
        answers += &answer;
    }

    let secret = fixture.get("secret", "sidecar-injector-ca")?;
    let data = secret["data"].as_object().context("the Secret is empty")?;
    for (key, value) in data {
        let value = value.as_str().unwrap_or_default();
        ensure!(value.len() < 40 || !answers.contains(value), "{key} is in the answer");
    }
    let says = |word: &str| ensure_absent(&answers, word);
    ["PRIVATE KEY", "BEGIN CERTIFICATE", "/var/run/secrets/kubernetes.io/serviceaccount/token"]
        .into_iter()
        .try_for_each(says)?;
    ensure!(state(fixture, &injector)? == before, "something was written");
    Ok(())
}

fn ensure_absent(answers: &str, word: &str) -> Result<()> {
    ensure!(!answers.contains(word), "{word} is in the answer: {answers}");
    Ok(())
}

/// Returns the versions of the injector's objects, and the number of its writes.
fn state(fixture: &Fixture, injector: &Injector) -> Result<[Value; 3]> {
    let version = |kind: &str, name: &str| -> Result<Value> {
        Ok(fixture.get(kind, name)?["metadata"]["resourceVersion"].clone())
    };
    Ok([
        version("secret", "sidecar-injector-ca")?,
        version("mutatingwebhookconfiguration", "istio-sidecar-injector")?,
        injector.count("webhook_patch_attempts_total")?.into(),
    ])
}

fn review(namespace: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "namespace": namespace,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "app", "labels": {"sidecar.istio.io/inject": "true"}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        },
    })
}
