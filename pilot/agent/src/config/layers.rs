//! Layers of `ProxyConfig`, from Istio's defaults to the pod's annotation.

use std::collections::BTreeMap;

use documents::yaml;
use mesh::mesh_config::MeshConfig;
use mesh::proxy_config::ProxyConfig;
use mesh::proxy_config_rules;
use serde_json::{Map, Value};

use super::annotations;
use super::error::{ConfigError, FLAGS};
use super::inputs::Inputs;
use crate::arguments::{ClassicArgs, MESH_CONFIG};
use crate::environment::variables::{ISTIO_CPU_LIMIT, PROXY_CONFIG};

/// Merged layers.
pub(super) struct Layers {
    pub(super) proxy_config: ProxyConfig,
    /// Trust domain of the mesh file.
    pub(super) trust_domain: Option<String>,
    /// Ports of captured connections, outbound and inbound.
    pub(super) capture_ports: [u16; 2],
    pub(super) warnings: Vec<String>,
    /// Highest layer that has a field, by the field.
    pub(super) sources: BTreeMap<String, String>,
}

impl Layers {
    /// Merges the layers: defaults, mesh file, flags, `PROXY_CONFIG`, annotation.
    pub(super) fn merge(inputs: &Inputs) -> Result<Self, ConfigError> {
        let mut layers = Self {
            proxy_config: ProxyConfig::default(),
            trust_domain: None,
            capture_ports: [15001, 15006],
            warnings: Vec::new(),
            sources: BTreeMap::new(),
        };
        let mesh_config = &inputs.arguments.mesh_config;
        if inputs.files.mesh.is_none() && mesh_config.as_os_str() != MESH_CONFIG {
            let warning = "has no effect until the file exists; hint: check the volume's mount";
            layers.warnings.push(format!("--meshConfig {} {warning}", mesh_config.display()));
        }
        if let Some(text) = &inputs.files.mesh {
            let file = format!("mesh file {}", mesh_config.display());
            let mesh =
                MeshConfig::parse(text).map_err(|problem| ConfigError::layer(&*file, &problem))?;
            for (place, problem) in mesh.oddities() {
                layers.warnings.push(format!("{file}: {place}: {problem}"));
            }
            layers.trust_domain =
                mesh.document.contains_key("trustDomain").then_some(mesh.trust_domain);
            layers.capture_ports = [mesh.proxy_listen_port, mesh.proxy_inbound_listen_port];
            layers.proxy_config = mesh.default_config;
            layers.check(&file)?;
            layers.remember(&file, mesh.document.get("defaultConfig"));
        }
        layers.put(FLAGS, &flags(&inputs.arguments.classic))?;
        let with_flags = layers.proxy_config.clone();
        layers.put_text(PROXY_CONFIG.name, inputs.environment.text(PROXY_CONFIG))?;
        if let Some(text) = inputs.files.annotations.get(annotations::PROXY_CONFIG) {
            layers.put_text(&format!("annotation {}", annotations::PROXY_CONFIG), text)?;
        }
        if let Some(address) = inputs.files.annotations.get(annotations::DISCOVERY_ADDRESS) {
            let layer = Value::from_iter([("discoveryAddress", address.as_str())]);
            layers.put(&format!("annotation {}", annotations::DISCOVERY_ADDRESS), &layer)?;
        }
        layers.warn_without_effect();
        layers.warn_overridden(inputs, &with_flags);
        Ok(layers)
    }

    /// Warns about flags that a higher layer overrides.
    fn warn_overridden(&mut self, inputs: &Inputs, with_flags: &ProxyConfig) {
        let Self { proxy_config, sources, warnings, .. } = self;
        let layer = |field: &str| sources.get(field).map_or("a higher layer", String::as_str);
        let flags = flags(&inputs.arguments.classic);
        for field in flags.as_object().into_iter().flat_map(Map::keys) {
            let value = |config: &ProxyConfig| config.value_at(field).cloned().unwrap_or_default();
            let (given, applied) = (value(with_flags), value(proxy_config));
            if given != applied {
                let layer = layer(field);
                warnings.push(format!(
                    "--{field} {given} has no effect: {field} of {layer} is {applied}"
                ));
            }
        }
        let Some(given) = inputs.arguments.concurrency else { return };
        let limit = inputs.environment.get(ISTIO_CPU_LIMIT);
        match (proxy_config.number_at(CONCURRENCY), limit) {
            (Some(applied), _) if applied != i64::from(given) => warnings.push(format!(
                "--concurrency {given} has no effect: {CONCURRENCY} of {} is {applied}",
                layer(CONCURRENCY)
            )),
            (None, Some(limit)) if limit != given.to_string() => warnings.push(format!(
                "--concurrency {given} has no effect: {} is {limit}",
                ISTIO_CPU_LIMIT.name
            )),
            _ => {}
        }
    }

    /// Warns about values that Envoy never gets.
    fn warn_without_effect(&mut self) {
        let config = &self.proxy_config;
        let mut warn = |field: &str, problem: String| {
            let root = field.split('.').next().unwrap_or_default();
            let layer = self.sources.get(root).map_or("ProxyConfig", String::as_str);
            self.warnings.push(format!("{layer}: {field}: {problem}"));
        };
        let initial = ProxyConfig::default();
        for (field, reason) in NEVER_USED {
            if config.value_at(field) != initial.value_at(field) {
                warn(field, format!("it has no effect: {reason}"));
            }
        }
        let sampling = config.value_at(SAMPLING).and_then(Value::as_f64);
        if let Some(sampling) = sampling.filter(|sampling| !(0.0..=100.0).contains(sampling)) {
            warn(SAMPLING, format!("{sampling} is not a percentage from 0 to 100"));
        }
    }

    /// Keeps the layer of its fields.
    fn remember(&mut self, layer: &str, fields: Option<&Value>) {
        let fields = fields.and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let names = fields.filter_map(|field| ProxyConfig::name_of(field));
        self.sources.extend(names.map(|field| (field.to_owned(), layer.to_owned())));
    }

    fn put_text(&mut self, layer: &str, text: &str) -> Result<(), ConfigError> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let value =
            yaml::parse(text).map_err(|error| ConfigError::layer(layer, &error.to_string()))?;
        if value.is_null() {
            return Ok(());
        }
        for key in ProxyConfig::unknown_keys(&value) {
            let (place, problem) = documents::notice::unknown(key);
            self.warnings.push(format!("{layer}: {place}: {problem}"));
        }
        self.put(layer, &value)?;
        for (field, below) in self.proxy_config.left_by(&value) {
            let problem = "its zero has no effect, since it counts as unset";
            self.warnings.push(format!("{layer}: {field}: {problem}; {below} applies"));
        }
        Ok(())
    }

    fn put(&mut self, layer: &str, value: &Value) -> Result<(), ConfigError> {
        self.proxy_config.overlay(value).map_err(|problem| ConfigError::layer(layer, &problem))?;
        self.check(layer)?;
        self.remember(layer, Some(value));
        Ok(())
    }

    /// Validates the fields as Istio does. The layer on top has caused the problem.
    fn check(&self, layer: &str) -> Result<(), ConfigError> {
        // No status port is a valid choice of this agent.
        let problems = proxy_config_rules::problems(&self.proxy_config);
        match problems.into_iter().find(|problem| !problem.starts_with("statusPort: 0 ")) {
            Some(problem) => Err(ConfigError::layer(layer, &problem)),
            None => Ok(()),
        }
    }
}

/// Returns the fields of `ProxyConfig` that flags of 2017 set.
fn flags(classic: &ClassicArgs) -> Value {
    let mut layer = Map::new();
    for (field, value) in [
        ("serviceCluster", &classic.service_cluster),
        ("configPath", &classic.config_path),
        ("binaryPath", &classic.binary_path),
        ("availabilityZone", &classic.availability_zone),
        ("discoveryAddress", &classic.discovery_address),
        ("zipkinAddress", &classic.zipkin_address),
        ("statsdUdpAddress", &classic.statsd_udp_address),
        ("controlPlaneAuthPolicy", &classic.control_plane_auth_policy),
    ] {
        if let Some(value) = value {
            layer.insert(field.to_owned(), value.as_str().into());
        }
    }
    if let Some(port) = classic.proxy_admin_port {
        layer.insert("proxyAdminPort".to_owned(), port.into());
    }
    if let Some(duration) = classic.drain_duration {
        layer.insert("drainDuration".to_owned(), format!("{}s", duration.as_secs_f64()).into());
    }
    Value::Object(layer)
}

/// Fields of `ProxyConfig` that the agent never uses, with the reason.
pub(super) const NEVER_USED: &[(&str, &str)] = &[
    ("customConfigFile", GENERATED),
    ("discoveryRefreshDelay", "configuration is streamed"),
    ("proxyBootstrapTemplatePath", GENERATED),
    ("sds", "certificates always travel by SDS"),
    ("statNameLength", "Envoy does not limit names of statistics"),
];
const GENERATED: &str = "the bootstrap is generated; hint: use the annotation \
                         sidecar.istio.io/bootstrapOverride";
const CONCURRENCY: &str = "concurrency";
const SAMPLING: &str = "tracing.sampling";
