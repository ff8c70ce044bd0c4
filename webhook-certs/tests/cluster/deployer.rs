//! A deployment tool that takes ownership of bundles.

use anyhow::Result;
use k8s_openapi::ByteString;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use webhook_certs::bundle::Bundle;

use crate::fixture::{Fixture, OURS};

/// Writes the bundle of our entries.
pub(crate) async fn apply_bundle(fixture: &Fixture<'_>, bundle: &Bundle) -> Result<()> {
    apply_bundle_to(fixture, &fixture.options.webhook_configurations[0], &OURS, bundle).await
}

/// Writes the bundle of entries of a webhook configuration.
pub(crate) async fn apply_bundle_to(
    fixture: &Fixture<'_>,
    configuration: &str,
    entries: &[&str],
    bundle: &Bundle,
) -> Result<()> {
    let bundle = ByteString(bundle.to_pem().into_bytes());
    let webhooks: Vec<_> = entries
        .iter()
        .map(|entry| json!({"name": entry, "clientConfig": {"caBundle": bundle}}))
        .collect();
    let patch = Patch::Apply(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "webhooks": webhooks,
    }));
    let how = PatchParams::apply("deployer").force();
    fixture.configurations().patch(configuration, &how, &patch).await?;
    Ok(())
}
