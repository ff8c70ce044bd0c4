//! The migration in docs/migration.md, from istiod's injector to ours and back, while pods are
//! created all the time.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use e2e::istiod;
use e2e::manifests::Composition;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::fixture::{Fixture, document};
use crate::injector::Injector;
use crate::issued::Issued;
use crate::pods::{self, Stream};

pub(crate) fn migration_from_istiod_and_back_injects_each_pod_once(
    fixture: &Fixture,
) -> Result<()> {
    let istiod = Istiod::install(fixture)?;
    let first = istiod.start(fixture)?;
    let client = fixture.admin.clone();
    let patcher = istiod.patch_bundles(fixture, &client)?;
    fixture.until_published(ISTIODS)?;
    pods::namespace(fixture, "istio-labelled", "istio-injection=enabled")?;
    pods::namespace(fixture, "istio-revised", "istio.io/rev=default")?;
    for namespace in ["istio-labelled", "istio-revised"] {
        fixture.runtime.block_on(pods::until_injected(&client, namespace))?;
    }
    // Counted first: these reviews were for the pods above.
    let before = first.count(INJECTED)?;
    let stream = Stream::start(fixture, &client, &["istio-labelled", "istio-revised"]);
    stream.until_only(BY_ISTIOD, ENOUGH)?;

    // Beside istiod's; it is not called until it has a caBundle.
    let dormant = fixture.render(Composition::new(&["istiod", "dormant"]))?;
    let apply = ["apply", "--server-side", "--filename", "-"];
    fixture.kubectl().must_with_input(apply, &dormant)?;
    let ours = Injector::of_manifests(fixture, &dormant)?;
    fixture.until_published(OURS)?;
    let called = fixture.render(Composition::new(&["istiod"]))?;
    fixture.kubectl().must_with_input(apply, &called)?;
    stream.until_only(BY_ISTIOD, ENOUGH)?;

    // From here on, our injector answers.
    let saved = fixture.kubectl().must(["get", CONFIGURATION, ISTIODS, "--output=yaml"])?;
    fixture.kubectl().must(["delete", CONFIGURATION, ISTIODS])?;
    stream.until_only(BY_OURS, ENOUGH)?;
    let by_first = first.count(INJECTED)? - before;
    let mut first = first;
    first.process.stop()?;
    stream.until_only(BY_OURS, ENOUGH)?;

    // And back: istiod first, then its configuration as it was, caBundle included.
    let second = istiod.start(fixture)?;
    let restored = without_server_fields(&saved)?;
    fixture.kubectl().must_with_input(["create", "--filename", "-"], &restored)?;
    stream.until_only(BY_ISTIOD, ENOUGH)?;
    let by_ours = ours.count(INJECTED)?;
    fixture.kubectl().must(["delete", CONFIGURATION, OURS])?;
    stream.until_only(BY_ISTIOD, ENOUGH)?;
    let delete = ["delete", "--ignore-not-found", "--wait=false", "--filename", "-"];
    fixture.kubectl().must_with_input(delete, &called)?;
    let mut ours = ours;
    ours.process.stop()?;
    stream.until_only(BY_ISTIOD, ENOUGH)?;

    let tally = stream.stop(fixture)?;
    patcher.abort();
    let by_second = second.count(INJECTED)?;
    let reviews = by_first + by_ours + by_second;
    tell(&format!("{} pods, {reviews} injections: {:?}", tally.all(), tally.by_tag));
    ensure!(tally.all() == reviews, "{} pods were injected {reviews} times", tally.all());
    ensure!(tally.count(BY_OURS) == by_ours, "{by_ours} by ours: {:?}", tally.by_tag);
    // istiod's objects and settings are unchanged.
    ensure!(fixture.get("configmap", ISTIODS)?["data"]["values"] == istiod.values.as_str());
    Ok(())
}

/// The part of Istio that matters for injection. Another process of ours answers its reviews, with
/// a certificate like istiod's.
struct Istiod {
    values: String,
    issued: Issued,
}

impl Istiod {
    fn install(fixture: &Fixture) -> Result<Self> {
        fixture.make_namespace()?;
        let base = fixture.render(Composition::new(&[]))?;
        let mut maps =
            [document(&base, "ConfigMap", "istio")?, document(&base, "ConfigMap", ISTIODS)?];
        let values = maps[1]["data"]["values"].as_str().context("no values")?;
        let values = values.replace("tag: 1.28.0", &format!("tag: {BY_OURS}"));
        maps[1]["data"]["values"] = json!(values);
        for map in &mut maps {
            map["metadata"]["labels"] = json!({"release": "istio"});
        }
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "istiod", "namespace": "istio-system"},
            "spec": {"ports": [{"name": "https-webhook", "port": 443, "targetPort": 15017}],
                     "selector": {"app": "istiod"}},
        });
        let [mesh, sidecar] = maps;
        let objects = [mesh, sidecar, service, istiod::of_default_revision(false)];
        fixture.runtime.block_on(fixture.objects.apply_as("helm", &objects))?;
        let issued = Issued::new(fixture, "istiod.istio-system.svc", "168h")?;
        // It reads the same settings, but with another tag, which identifies the injector of a pod.
        let its = values.replace(BY_OURS, BY_ISTIOD);
        fs::write(issued.path("values.yaml"), its).context("writing values")?;
        Ok(Self { values, issued })
    }

    fn start(&self, fixture: &Fixture) -> Result<Injector> {
        let path = |name: &str| self.issued.path(name).display().to_string();
        let flags = [
            format!("--valuesFile={}", path("values.yaml")),
            format!("--tlsCertFile={}", path("tls.crt")),
            format!("--tlsKeyFile={}", path("tls.key")),
        ];
        Injector::start(fixture, "istiod", &flags)
    }

    /// Writes its CA into every configuration of its revision repeatedly, as istiod does.
    fn patch_bundles(&self, fixture: &Fixture, client: &Client) -> Result<JoinHandle<()>> {
        let authority = self.issued.read("ca.crt")?.into_bytes();
        let client = client.clone();
        Ok(fixture.runtime.spawn(async move {
            loop {
                // On a conflict, the next round retries.
                let _ = patch_bundles(&client, &authority).await;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }))
    }
}

async fn patch_bundles(client: &Client, authority: &[u8]) -> Result<()> {
    let all: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let revision = ListParams::default().labels("istio.io/rev=default");
    for mut configuration in all.list(&revision).await? {
        let before = configuration.clone();
        for entry in configuration.webhooks.iter_mut().flatten() {
            if entry.name.ends_with("sidecar-injector.istio.io") {
                entry.client_config.ca_bundle = Some(ByteString(authority.to_vec()));
            }
        }
        if configuration != before {
            let name = configuration.metadata.name.clone().unwrap_or_default();
            all.replace(&name, &PostParams::default(), &configuration).await?;
        }
    }
    Ok(())
}

/// Returns a saved object without the fields that prevent its creation.
fn without_server_fields(saved: &str) -> Result<String> {
    let mut object = documents::yaml::parse(saved)?;
    let Some(metadata) = object["metadata"].as_object_mut() else { bail!("there is no metadata") };
    for field in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"] {
        metadata.remove(field);
    }
    Ok(object.to_string())
}

#[expect(clippy::print_stderr, reason = "figures are for people")]
fn tell(figures: &str) {
    eprintln!("{figures}");
}

const CONFIGURATION: &str = "mutatingwebhookconfiguration";
const ISTIODS: &str = "istio-sidecar-injector";
const OURS: &str = "sidecar-injector";
const INJECTED: &str = "sidecar_injection_total{result=\"injected\"";
const BY_ISTIOD: &str = "by-istiod";
const BY_OURS: &str = "by-ours";
/// Number of pods after each step.
const ENOUGH: u64 = 80;
