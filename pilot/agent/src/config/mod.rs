//! Configuration of the agent: settings of each part, resolved from all layers.

mod addresses;
pub mod annotations;
pub mod bootstrap_options;
mod changes;
mod control_plane;
pub(crate) mod envoy;
pub mod error;
pub mod inputs;
#[cfg(test)]
mod inputs_tests;
mod layers;
mod metadata;
pub mod options;
mod pod;
mod ports;
mod services;
mod statistics;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod warnings;

pub use bootstrap_options::{
    Address, BootstrapOptions, ClientTls, Keepalive, RemoteService, RuntimeValue,
    StatisticsOptions, TlsIdentity, Tracer,
};
pub use changes::{needing_new_container, without_effect};
pub use control_plane::LARGEST_GRACE_RATIO;
pub use error::ConfigError;
pub use inputs::{Files, Inputs};
pub use options::{
    CertificateOptions, Config, DiscoveryOptions, DnsOptions, DrainOptions, EnvoyOptions,
    KeyAlgorithm, Paths, Pod, Role, RootSource, StatusOptions,
};

use std::path::PathBuf;

use layers::Layers;

use crate::arguments::RoleArg;
use crate::environment::variables::{DISABLE_ENVOY, GRPC_XDS_BOOTSTRAP};

/// A configuration, and the warnings about its inputs.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Configuration.
    pub config: Config,
    /// Messages about parts of the inputs that have no effect.
    pub warnings: Vec<String>,
}

/// Resolves the configuration. Call it again with new [`Files`] when one of them has changed.
pub fn resolve(inputs: &Inputs) -> Result<Resolved, ConfigError> {
    inputs.environment.check_text()?;
    let mut layers = Layers::merge(inputs)?;
    let sources = std::mem::take(&mut layers.sources);
    resolve_layers(inputs, layers).map_err(|error| error.with_layer(&sources))
}

fn resolve_layers(inputs: &Inputs, layers: Layers) -> Result<Resolved, ConfigError> {
    let Inputs { arguments, environment, files, .. } = inputs;
    let Layers { proxy_config, trust_domain, capture_ports, mut warnings, .. } = layers;
    warnings.extend(arguments.absent.warnings());
    warnings.extend(warnings::warnings(inputs));
    let role = match arguments.role {
        RoleArg::Sidecar => Role::Sidecar,
        RoleArg::Router => Role::Router,
    };
    let metadata = metadata::metadata(environment, &proxy_config)?;
    let pod = pod::pod(inputs, role, &metadata, trust_domain)?;
    let paths = Paths {
        configuration: PathBuf::from(proxy_config.text_at("configPath")),
        token: control_plane::token_path(environment)?,
        ..Paths::default()
    };
    let without_envoy = environment.switch(DISABLE_ENVOY)?;
    let discovery = control_plane::discovery(environment, &proxy_config, &paths)?;
    let certificates = control_plane::certificates(environment, &discovery, &paths)?;
    let config = Config {
        role,
        envoy: if without_envoy { None } else { Some(envoy::envoy(inputs, &pod, &proxy_config)?) },
        bootstrap: envoy::bootstrap(inputs, &pod, &proxy_config, &metadata)?,
        grpc_bootstrap: without_envoy.then(|| environment.text(GRPC_XDS_BOOTSTRAP).into()),
        discovery,
        certificates,
        status: status::status(environment, files, &proxy_config)?,
        dns: status::dns(environment, files, &metadata)?,
        drain: envoy::drain(environment, &proxy_config, &metadata)?,
        paths,
        pod,
        labels: files.labels.clone(),
        annotations: files.annotations.clone(),
        proxy_config,
        metadata,
    };
    ports::check(inputs, &config, capture_ports)?;
    Ok(Resolved { config, warnings })
}

const RESOLV_CONF: &str = "/etc/resolv.conf";
