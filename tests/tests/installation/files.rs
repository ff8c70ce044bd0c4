//! Mounted certificates and configuration, without any permissions at the API server.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::manifests::Composition;
use e2e::wait;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::fixture::{Fixture, document, documents};
use crate::injector::Injector;
use crate::issued::Issued;
use crate::mounted_volumes::Mounted;
use crate::pods::{self, Stream};

/// Pods are created all the time while the test acts as cert-manager: first it writes a key that
/// does not match the certificate, then a leaf of another CA. Then the configuration changes.
pub(crate) fn pods_are_injected_while_certificates_are_replaced(fixture: &Fixture) -> Result<()> {
    for composition in COMPOSITIONS {
        fixture.clear()?;
        let revision = composition.revision.unwrap_or("default");
        replaced(fixture, composition, revision).with_context(|| format!("{composition:?}"))?;
    }
    Ok(())
}

fn replaced(fixture: &Fixture, composition: Composition, revision: &str) -> Result<()> {
    let rendered = fixture.render(composition)?;
    fixture.make_namespace()?;
    fixture.apply(&rendered)?;
    let deployment = documents(&rendered)?.into_iter().find(|one| one["kind"] == "Deployment");
    let deployment = deployment.context("there is no Deployment")?;
    let name = deployment["metadata"]["name"].as_str().context("a Deployment has a name")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let secret = name.replace("sidecar-injector", "sidecar-injector-tls");
    let configuration = name.replace("sidecar-injector", "istio-sidecar-injector");

    let dns = format!("{name}.istio-system.svc");
    let [first, second] = ["200h", "300h"].map(|lifetime| Issued::new(fixture, &dns, lifetime));
    let (first, second) = (first?, second?);
    keep(fixture, &secret, &first, &first)?;
    trust(fixture, &configuration, &first.read("ca.crt")?)?;
    let mut mounted = Mounted::of_pod(fixture, pod)?;
    let injector = Injector::of_mounted(fixture, &deployment, &mounted)?;
    let client = fixture.admin.clone();
    pods::namespace(fixture, "istio-apps", &format!("istio.io/rev={revision}"))?;
    fixture.runtime.block_on(pods::until_injected(&client, "istio-apps"))?;
    let stream = Stream::start(fixture, &client, &["istio-apps"]);
    stream.until_only("1.28.0", ENOUGH)?;
    let until = expiry(&injector)?;

    // The key of another certificate is rejected, and the last good pair stays.
    keep(fixture, &secret, &second, &first)?;
    mounted.update(fixture)?;
    injector.until_it_says("the last good certificate stays")?;
    stream.until_only("1.28.0", ENOUGH)?;
    ensure!(expiry(&injector)? == until, "half a pair is served");

    // First both CAs are trusted, then the new CA's leaf is served, then only the new CA is
    // trusted.
    trust(fixture, &configuration, &(first.read("ca.crt")? + &second.read("ca.crt")?))?;
    stream.until_only("1.28.0", ENOUGH)?;
    keep(fixture, &secret, &second, &second)?;
    mounted.update(fixture)?;
    wait::until("the next certificate is served", || {
        ensure!(expiry(&injector)? > until, "not yet");
        anyhow::Ok(())
    })?;
    trust(fixture, &configuration, &second.read("ca.crt")?)?;
    stream.until_only("1.28.0", ENOUGH)?;

    let map = document(&rendered, "ConfigMap", &configuration)?;
    let values = map["data"]["values"].as_str().context("no values")?;
    let changed = json!({"data": {"values": values.replace("tag: 1.28.0", "tag: 1.29.0")}});
    let (namespace, patch) = ("--namespace=istio-system", changed.to_string());
    fixture.kubectl().must(["patch", "configmap", &configuration, namespace, "--patch", &patch])?;
    mounted.update(fixture)?;
    stream.until_only("1.29.0", ENOUGH)?;
    stream.stop(fixture).map(drop)
}

/// Writes the Secret as cert-manager does.
fn keep(fixture: &Fixture, secret: &str, certificate: &Issued, key: &Issued) -> Result<()> {
    let data = [
        ("ca.crt", certificate.read("ca.crt")?),
        ("tls.crt", certificate.read("tls.crt")?),
        ("tls.key", key.read("tls.key")?),
    ];
    let data: Value = data
        .into_iter()
        .map(|(key, text)| (key.to_owned(), json!(BASE64_STANDARD.encode(text))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": secret, "namespace": "istio-system"},
        "data": data,
    });
    let manager = "cert-manager-certificates-issuing";
    fixture.runtime.block_on(fixture.objects.apply_as(manager, &[secret]))
}

/// Writes `caBundle` as cert-manager's injector does, without applying the object.
pub(crate) fn trust(fixture: &Fixture, configuration: &str, pem: &str) -> Result<()> {
    let bundle = BASE64_STANDARD.encode(pem);
    let patch: Vec<Value> = (0..fixture.bundles(configuration)?.len())
        .map(|entry| {
            let path = format!("/webhooks/{entry}/clientConfig/caBundle");
            json!({"op": "add", "path": path, "value": bundle})
        })
        .collect();
    let how = PatchParams {
        field_manager: Some("cert-manager-cainjector".to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::<()>::Json(serde_json::from_value(Value::Array(patch))?);
    let configurations = Api::<MutatingWebhookConfiguration>::all(fixture.admin.clone());
    fixture.runtime.block_on(configurations.patch(configuration, &how, &patch))?;
    Ok(())
}

fn expiry(injector: &Injector) -> Result<u64> {
    injector.count("sidecar_injector_certificate_not_after_timestamp_seconds")
}

const COMPOSITIONS: [Composition; 2] = [
    Composition::new(&["files"]),
    Composition { components: &["cert-manager", "revision"], revision: Some("canary"), tags: &[] },
];
/// Number of pods after each step.
const ENOUGH: u64 = 50;
