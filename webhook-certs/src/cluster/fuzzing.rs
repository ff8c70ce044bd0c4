//! Parser and writer of webhook configurations, for fuzz targets; their module is private.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use serde_json::Value;

use super::{Options, entries};
use crate::bundle::Bundle;
use crate::rotation::{BundlePatch, Configuration};

/// Returns the managed entries of a configuration.
pub fn managed(object: MutatingWebhookConfiguration, options: &Options) -> Option<Configuration> {
    entries::managed(object, options)
}

/// Patch that gives a bundle to every one of these entries.
pub fn patch(configuration: &Configuration, bundle: &Bundle) -> Value {
    let entries = configuration.entries.iter().map(|entry| (entry.name.clone(), bundle.clone()));
    let entries: Vec<_> = entries.collect();
    let Configuration { name, uid, resource_version, .. } = configuration.clone();
    entries::bundle_patch(&BundlePatch { name, uid, resource_version, entries })
}
