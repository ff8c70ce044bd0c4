//! An installation without a running replica: the API servers' errors, and the remedy.

use anyhow::{Context, Result, bail, ensure};
use e2e::manifests::Composition;
use e2e::wait;
use serde_json::json;

use crate::fixture::Fixture;
use crate::injector::Injector;
use crate::pods;

/// The remedy in docs/install.md: only the webhook configuration is deleted and later applied
/// again.
pub(crate) fn pods_are_rejected_without_replica_until_webhook_removal(
    fixture: &Fixture,
) -> Result<()> {
    let rendered = fixture.render(Composition::new(&[]))?;
    fixture.apply(&rendered)?;
    let mut injector = Injector::of_manifests(fixture, &rendered)?;
    fixture.until_published(NAME)?;
    pods::namespace(fixture, "istio-labelled", "istio-injection=enabled")?;
    pods::namespace(fixture, "istio-unlabelled", "app=any")?;
    let client = fixture.admin.clone();
    let create = |namespace: &str| fixture.runtime.block_on(pods::create(&client, namespace));
    fixture.runtime.block_on(pods::until_injected(&client, "istio-labelled"))?;

    // This API server routes to endpoints, and no controller writes any here.
    let routing = ["--enable-aggregator-routing=true".to_owned()];
    let aggregating = fixture.servers.start_further(&routing)?;
    let aggregating = fixture.runtime.block_on(aggregating.admin())?;
    let without_endpoints = || {
        let refused = fixture.runtime.block_on(pods::create(&aggregating, "istio-labelled")).err();
        let said = format!("{:#}", refused.context("it was created")?);
        let reason = "no endpoints available for service \"sidecar-injector\"";
        ensure!(said.contains("failed calling webhook") && said.contains(reason), "{said}");
        anyhow::Ok(())
    };
    wait::until("the API server rejects pods for lack of endpoints", without_endpoints)?;
    let service = fixture.get("service", "sidecar-injector")?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "sidecar-injector-1", "namespace": "istio-system",
                     "labels": {"kubernetes.io/service-name": "sidecar-injector"}},
        "ports": [{"name": "https-webhook", "port": 443, "protocol": "TCP"}],
        "endpoints": [{"addresses": [service["spec"]["clusterIP"]], "conditions": {"ready": true}}],
    });
    fixture.apply(&slice.to_string())?;
    fixture.runtime.block_on(pods::until_injected(&aggregating, "istio-labelled"))?;

    // Connections outlive their endpoints, so the replica ends first.
    injector.process.stop()?;
    let slice = ["delete", "endpointslice", "sidecar-injector-1", "--namespace=istio-system"];
    fixture.kubectl().must(slice)?;
    wait::until("the API server rejects pods for lack of endpoints", without_endpoints)?;
    wait::until("the API server rejects pods", || {
        let refused = create("istio-labelled").err().context("it was created")?;
        let said = format!("{refused:#}");
        ensure!(said.contains("failed calling webhook"), "{said}");
        anyhow::Ok(())
    })?;
    create("istio-unlabelled").context("who does not ask for injection")?;

    fixture.kubectl().must(["delete", "mutatingwebhookconfiguration", NAME])?;
    wait::until("pods are let in", || {
        let pod = create("istio-labelled")?;
        ensure!(pod.spec.is_some_and(|spec| spec.init_containers.is_none()), "it was injected");
        anyhow::Ok(())
    })?;

    // Replicas come first, otherwise pods are rejected again.
    let _injector = Injector::of_manifests(fixture, &rendered)?;
    fixture.apply(&rendered)?;
    fixture.until_published(NAME)?;
    let tag = fixture.runtime.block_on(pods::until_injected(&client, "istio-labelled"))?;
    if tag != "1.28.0" {
        bail!("injected with {tag}");
    }
    Ok(())
}

const NAME: &str = "istio-sidecar-injector";
