//! Bootstraps of the current configuration, computed again when one of its files changes.

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::sync::watch;

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

/// Settings that the agent's parts read at their start, by the name of their field.
type Fixed = [(&'static str, String); 5];

impl Bootstraps {
    pub(super) fn new(inputs: Inputs, config: &Config, health: Arc<Health>) -> Self {
        Self { inputs, fixed: fixed(config), health }
    }

    /// Publishes a new bootstrap after each change of a file. An invalid configuration leaves the
    /// bootstrap as it is, and readiness' text says so.
    pub(super) async fn follow(mut self, desired: watch::Sender<Arc<Desired>>) -> Infallible {
        let (changes, mut changed) = watch::channel(());
        let mut files = self.inputs.watched_files();
        files.extend(self.bootstrap_override());
        let watching = watch(files, INTERVAL, move || changes.send_replace(()));
        tokio::pin!(watching);
        loop {
            tokio::select! {
                never = &mut watching => match never {},
                _ = changed.changed() => {}
            }
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
    }

    fn bootstrap_override(&self) -> Option<PathBuf> {
        config::resolve(&self.inputs).ok()?.config.envoy?.bootstrap_override
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

/// Returns the settings that cannot change while the agent runs. A new Envoy with another admin port
/// would be out of the agent's sight, and one with another path would not find its sockets.
fn fixed(config: &Config) -> Fixed {
    let envoy = config.envoy.as_ref();
    let status = config.status.as_ref();
    [
        ("binaryPath", envoy.map(|it| it.binary.display().to_string()).unwrap_or_default()),
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
    })
}

/// The kubelet needs up to a minute to write a changed annotation.
const INTERVAL: Duration = Duration::from_secs(1);
