//! Managed entries of a webhook configuration, and patches of them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, ServiceReference,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::json;

use crate::bundle::Bundle;
use crate::options::Options;
use crate::rotation::{BundlePatch, Configuration, Entry};

pub(super) fn bundle_patch(patch: &BundlePatch) -> serde_json::Value {
    let BundlePatch { name, uid, resource_version, entries } = patch;
    let webhooks: Vec<_> = entries
        .iter()
        .map(|(entry, bundle)| {
            let bundle = k8s_openapi::ByteString(bundle.to_pem().into_bytes());
            json!({"name": entry, "clientConfig": {"caBundle": bundle}})
        })
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "uid": uid, "resourceVersion": resource_version},
        "webhooks": webhooks,
    })
}

/// Returns the entries that call our Service, unless the object belongs to another revision.
pub(super) fn managed(
    configuration: MutatingWebhookConfiguration,
    options: &Options,
) -> Option<Configuration> {
    if is_of_another_revision(&configuration, options) {
        return None;
    }
    let MutatingWebhookConfiguration { metadata, webhooks } = configuration;
    let entries: Vec<_> = webhooks
        .unwrap_or_default()
        .into_iter()
        .filter(|webhook| is_ours(webhook, options))
        .map(|webhook| Entry {
            bundle: webhook
                .client_config
                .ca_bundle
                .map(|bundle| Bundle::observed(&bundle.0))
                .unwrap_or_default(),
            name: webhook.name,
        })
        .collect();
    let fields = metadata.managed_fields.as_deref();
    let others = other_managers(fields, &entries, options);
    let published_at = published_at(fields, options);
    Some(Configuration {
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        resource_version: metadata.resource_version.unwrap_or_default(),
        generation: metadata.generation.unwrap_or_default(),
        published_at,
        entries,
        others,
    })
}

/// Instant of the latest apply by the field manager that all replicas share.
fn published_at(fields: Option<&[ManagedFieldsEntry]>, options: &Options) -> Option<Timestamp> {
    let ours = options.field_manager();
    fields
        .unwrap_or_default()
        .iter()
        .filter(|fields| fields.manager.as_ref() == Some(&ours))
        .filter_map(|fields| fields.time.as_ref().map(|time| time.0))
        .max()
}

/// Other field managers that own a `caBundle` of these entries.
fn other_managers(
    fields: Option<&[ManagedFieldsEntry]>,
    entries: &[Entry],
    options: &Options,
) -> Vec<String> {
    let ours = options.field_manager();
    let keys: Vec<_> =
        entries.iter().map(|entry| format!("k:{}", json!({"name": entry.name}))).collect();
    let owns_bundle = |fields: &ManagedFieldsEntry| {
        let webhooks = fields.fields_v1.as_ref().map(|fields| &fields.0["f:webhooks"]);
        webhooks.is_some_and(|webhooks| {
            keys.iter().any(|key| !webhooks[key]["f:clientConfig"]["f:caBundle"].is_null())
        })
    };
    let managers: BTreeSet<_> = fields
        .unwrap_or_default()
        .iter()
        .filter(|fields| owns_bundle(fields))
        .filter_map(|fields| fields.manager.clone())
        .filter(|manager| *manager != ours)
        .collect();
    managers.into_iter().collect()
}

/// True if the label names another revision.
pub(super) fn is_of_another_revision(
    configuration: &MutatingWebhookConfiguration,
    options: &Options,
) -> bool {
    let labels = configuration.metadata.labels.as_ref();
    let revision = labels.and_then(|labels| labels.get(REVISION_LABEL));
    revision.is_some_and(|revision| revision != options.revision())
}

/// An entry without rules is the remainder of an entry that another manager removed.
pub(super) fn is_ours(webhook: &MutatingWebhook, options: &Options) -> bool {
    let calls_us = |service: &ServiceReference| {
        service.name == options.service && service.namespace == options.namespace
    };
    webhook.client_config.service.as_ref().is_some_and(calls_us)
        && webhook.rules.as_ref().is_some_and(|rules| !rules.is_empty())
}

/// Istio's label for the revision of a webhook configuration.
const REVISION_LABEL: &str = "istio.io/rev";
