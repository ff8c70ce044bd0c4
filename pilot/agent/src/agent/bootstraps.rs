//! Bootstraps of the current configuration, computed again when one of its files changes.

use std::convert::Infallible;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::sync::{Notify, watch};

use crate::bootstrap::{bootstrap, command_line, grpc};
use crate::config::{self, Config, Files, Inputs};
use crate::health::{Health, Part};
use crate::node::Node;
use crate::supervisor::Desired;
use crate::watch::watch;

/// Source of bootstraps.
pub(super) struct Bootstraps {
    inputs: Inputs,
    fixed: Fixed,
    health: Arc<Health>,
}

/// Settings that the agent's parts read at their start, by the name of their field or annotation.
type Fixed = [(&'static str, String); 6];

impl Bootstraps {
    pub(super) fn new(inputs: Inputs, config: &Config, health: Arc<Health>) -> Self {
        Self { inputs, fixed: fixed(config), health }
    }

    /// Publishes a new bootstrap after each change of a file. An invalid configuration leaves the
    /// bootstrap as it is, and readiness' text says so.
    pub(super) async fn follow(mut self, desired: watch::Sender<Arc<Desired>>) -> Infallible {
        loop {
            // The files are watched before they are read: no change between the two is lost.
            let changed = Notify::new();
            let watching = watch(self.watched_files(), INTERVAL, || changed.notify_one());
            self.publish(&desired);
            tokio::select! {
                never = watching => match never {},
                () = changed.notified() => {}
            }
        }
    }

    fn publish(&mut self, desired: &watch::Sender<Arc<Desired>>) {
        match self.again() {
            Ok(next) => {
                self.health.clear(Part::Configuration);
                desired.send_if_modified(|current| {
                    let is_new = **current != next;
                    if is_new {
                        *current = Arc::new(next);
                    }
                    is_new
                });
            }
            Err(error) => {
                let message = format!("the changed configuration is not applied: {error:#}");
                tracing::warn!("{message}");
                self.health.set(Part::Configuration, message);
            }
        }
    }

    /// Returns the files that the bootstrap depends on. A change of one may change which these are.
    fn watched_files(&self) -> Vec<PathBuf> {
        let mut files = self.inputs.watched_files();
        if let Ok(resolved) = config::resolve(&self.inputs) {
            files.extend(resolved.config.bootstrap.certificate_files());
            files.extend(resolved.config.envoy.and_then(|envoy| envoy.bootstrap_override));
        }
        files
    }

    fn again(&mut self) -> Result<Desired> {
        self.inputs.files = Files::read(&self.inputs.arguments.mesh_config)?;
        let config = config::resolve(&self.inputs)?.config;
        let differs = self.fixed.iter().zip(fixed(&config)).find(|(old, new)| **old != *new);
        if let Some(((field, old), (_, new))) = differs {
            bail!(
                "{field} is {new:?} now, and was {old:?} when the agent started; create a new pod"
            );
        }
        desired(&config)
    }
}

/// Returns the settings that cannot change while the agent runs. A new Envoy with another admin
/// port would be out of the agent's sight, and one with another path would not find its sockets.
fn fixed(config: &Config) -> Fixed {
    let envoy = config.envoy.as_ref();
    let status = config.status.as_ref();
    let targets = status.and_then(|it| it.scrape_targets.clone());
    [
        ("binaryPath", envoy.map(|it| it.binary.display().to_string()).unwrap_or_default()),
        ("prometheus.istio.io/scrape-targets", targets.unwrap_or_default()),
        ("configPath", config.paths.configuration.display().to_string()),
        ("discoveryAddress", config.discovery.address.clone()),
        ("proxyAdminPort", envoy.map(|it| it.admin_port.to_string()).unwrap_or_default()),
        ("statusPort", status.map_or(0, |it| it.port).to_string()),
    ]
}

/// Writes the bootstrap of gRPC applications, in one step.
pub(super) fn write_grpc(config: &Config) -> Result<()> {
    let Some(file) = &config.grpc_bootstrap else { return Ok(()) };
    let folder = std::env::current_dir().context("finding the working directory")?;
    let text = format!("{:#}", grpc::bootstrap(config, &Node::new(config), &folder));
    let prepared = match file.parent() {
        Some(parent) => fs::create_dir_all(parent),
        None => Ok(()),
    };
    prepared
        .and_then(|()| local_files::replace_file(file, 0o644, &[text.as_bytes()]))
        .with_context(|| format!("writing {} (GRPC_XDS_BOOTSTRAP)", file.display()))
}

/// Returns the bootstrap of a configuration with Envoy.
pub(super) fn desired(config: &Config) -> Result<Desired> {
    let envoy = config.envoy.as_ref().context("DISABLE_ENVOY is set")?;
    let override_text =
        match &envoy.bootstrap_override {
            Some(file) => Some(fs::read_to_string(file).with_context(|| {
                format!("reading {} (ISTIO_BOOTSTRAP_OVERRIDE)", file.display())
            })?),
            None => None,
        };
    Ok(Desired {
        bootstrap: bootstrap(config, envoy, &Node::new(config)),
        arguments: command_line::arguments(config, envoy),
        override_text,
        certificates: config
            .bootstrap
            .certificate_files()
            .iter()
            .map(|file| digest(file))
            .collect(),
    })
}

/// Returns a digest of a file; an absent file has one too.
fn digest(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    fs::read(file).ok().hash(&mut hasher);
    hasher.finish()
}

/// The kubelet needs up to a minute to write a changed annotation.
const INTERVAL: Duration = Duration::from_secs(1);
