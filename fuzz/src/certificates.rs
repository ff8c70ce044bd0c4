//! Certificates in a cluster: a Secret and webhook configurations.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use webhook_certs::bundle::Bundle;
use webhook_certs::cluster::{Options, fuzzing};
use webhook_certs::secret::State;
use webhook_certs::secret::rotation_requests::RotationRequests;

/// Fuzzes PEM text of any origin.
pub fn pem(data: &[u8]) {
    let observed = Bundle::observed(data);
    reads_as_written(&observed);
    match Bundle::parse(data) {
        Ok(bundle) => {
            assert!(!bundle.is_empty());
            assert!(observed.is_superset_of(&bundle));
            reads_as_written(&bundle);
            let first = bundle.certificates()[0].clone();
            let whole = Bundle::new(first, observed.certificates().iter().cloned());
            assert!(whole.certificates().len() <= Bundle::CAPACITY);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Fuzzes a Secret as JSON.
pub fn secret(data: &[u8]) {
    let Ok(secret) = serde_json::from_slice::<Secret>(data) else { return };
    let _ = RotationRequests::from_secret(&secret);
    match State::parse(&secret) {
        Ok(state) => {
            let written = state.write(secret);
            assert_eq!(State::parse(&written).expect("what was written"), state);
            assert_eq!(state.write(written.clone()), written);
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains('`'), "no key or annotation is named: {message}");
            for value in secret.data.iter().flat_map(|data| data.values()) {
                let text = String::from_utf8_lossy(&value.0);
                let is_quoted = text.lines().any(|line| line.len() > 32 && message.contains(line));
                assert!(!is_quoted, "contents of the Secret are quoted: {message}");
            }
        }
    }
}

/// Fuzzes a `MutatingWebhookConfiguration` as JSON.
pub fn webhook_configuration(data: &[u8]) {
    let Ok(object) = serde_json::from_slice::<MutatingWebhookConfiguration>(data) else { return };
    let webhooks = object.webhooks.clone().unwrap_or_default();
    let Some(configuration) = fuzzing::managed(object, &Options::default()) else { return };
    for entry in &configuration.entries {
        let is_called = webhooks.iter().any(|webhook| {
            let service = webhook.client_config.service.as_ref();
            webhook.name == entry.name && service.is_some_and(|it| it.name == "sidecar-injector")
        });
        assert!(is_called, "{} does not call this webhook", entry.name);
        reads_as_written(&entry.bundle);
        // Only the bundle is written.
        let patch = fuzzing::patch(&configuration, &entry.bundle);
        let applied: Vec<Value> = configuration
            .entries
            .iter()
            .map(|named| {
                let pem = STANDARD.encode(entry.bundle.to_pem());
                json!({"name": named.name, "clientConfig": {"caBundle": pem}})
            })
            .collect();
        let expected = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": configuration.name,
                "uid": configuration.uid,
                "resourceVersion": configuration.resource_version,
            },
            "webhooks": applied,
        });
        assert_eq!(patch, expected);
    }
}

fn reads_as_written(bundle: &Bundle) {
    assert_eq!(Bundle::observed(bundle.to_pem().as_bytes()), *bundle);
}
