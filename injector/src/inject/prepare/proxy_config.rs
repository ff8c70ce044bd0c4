//! Layers of a pod's proxy configuration.

use documents::notice::LAST_COUNTS;
use documents::yaml;
use mesh::proxy_config::ProxyConfig;
use reason::{Reason, words};
use serde_json::Value;

use crate::inject::policy::Rules;
use crate::inject::request::Target;
use crate::settings::Settings;
use crate::settings::annotations::key;
use crate::settings::proxy_configs::Layers;

/// Merges all layers of the pod's proxy configuration. Also returns warnings about the pod's own
/// layer, which was validated before.
pub(crate) fn proxy_config(
    settings: &Settings,
    target: &Target<'_>,
    annotation: Option<&str>,
) -> (ProxyConfig, Vec<Reason>) {
    let annotation = annotation.and_then(|text| yaml::parse_first(text).ok());
    let (annotation, passed_over) = annotation.unzip();
    let layers = Layers {
        mesh: &settings.mesh,
        resources: target.cluster.proxy_configs,
        namespace: target.namespace,
        labels: target.pod["metadata"]["labels"].as_object(),
        annotation: annotation.as_ref().filter(|layer| !layer.is_null()),
    };
    let config = match target.rules {
        Rules::Admission => layers.for_admission(),
        Rules::Manual => layers.for_a_file(),
    };
    let mut warnings = layers.warnings(&config, target.rules == Rules::Manual);
    warnings.extend(passed_over.flatten().map(|error| {
        let message = format!("annotation {}: {error}; {LAST_COUNTS}", key::PROXY_CONFIG);
        Reason::new(words::REPEATED_IN_PROXY_CONFIG, message)
    }));
    warnings.extend(annotation.iter().flat_map(|layer| no_text(layer, &config)));
    (config, warnings)
}

/// Entries of the pod's own `proxyMetadata` that YAML takes for numbers or switches.
fn no_text(layer: &Value, config: &ProxyConfig) -> Vec<Reason> {
    let names = ["proxyMetadata", "proxy_metadata"].into_iter();
    let entries = names.filter_map(|name| layer.get(name)?.as_object()).flatten();
    let odd = entries.filter(|(_, value)| value.is_number() || value.is_boolean());
    odd.map(|(name, value)| {
        let kind = if value.is_number() { "a number" } else { "true or false" };
        let text = config.metadata(name).unwrap_or_default();
        let message = format!(
            "annotation {}: proxyMetadata.{name} is {kind} to YAML; the text {text:?} is used",
            key::PROXY_CONFIG
        );
        Reason::new(words::NO_TEXT_IN_PROXY_METADATA, message)
    })
    .collect()
}
