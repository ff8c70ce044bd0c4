//! Changes of the pod's files while the agent runs: the configuration is resolved again and applied.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::sync::{Notify, watch};

use super::bootstraps::{desired, write_grpc};
use crate::channel::{ChannelOptions, ControlPlane};
use crate::config::{self, Config, Inputs, Resolved};
use crate::health::{Health, Part};
use crate::status::{ScrapeTarget, Scraper};
use crate::supervisor::Desired;
use crate::watch::watch;

/// Follower of the files.
pub(super) struct Changes {
    pub(super) inputs: Inputs,
    /// Configuration at the start.
    pub(super) started: Config,
    pub(super) parts: Parts,
    pub(super) health: Arc<Health>,
    /// Warnings that have been logged.
    pub(super) warnings: Vec<String>,
}

/// Parts of the agent whose settings change.
pub(super) struct Parts {
    /// Connections of the relay, of the debug port and of preconditions.
    pub(super) control_plane: ControlPlane,
    /// Connections to the certificate service.
    pub(super) certificate_service: Option<ControlPlane>,
    /// Client of the application's metrics; `None` without a status port.
    pub(super) scraper: Option<Arc<Scraper>>,
    /// Input of supervision; `None` with `DISABLE_ENVOY`.
    pub(super) desired: Option<watch::Sender<Arc<Desired>>>,
}

impl Changes {
    /// Applies each change of a file. An invalid configuration changes nothing, nor does one that
    /// needs a new container, and readiness' text says so.
    pub(super) async fn follow(mut self) -> Infallible {
        loop {
            // The files are watched before they are read: no change between the two is lost.
            let changed = Notify::new();
            let watching = watch(self.watched_files(), INTERVAL, || changed.notify_one());
            match self.apply() {
                Ok(()) => self.health.clear(Part::Configuration),
                Err(error) => {
                    let message = format!("the changed configuration is not applied: {error:#}");
                    tracing::warn!("{message}");
                    self.health.set(Part::Configuration, message);
                }
            }
            tokio::select! {
                never = watching => match never {},
                () = changed.notified() => {}
            }
        }
    }

    /// Returns the files that the configuration depends on. A change of one may change which these
    /// are.
    fn watched_files(&self) -> Vec<PathBuf> {
        let mut files = self.inputs.watched_files();
        if let Ok(resolved) = config::resolve(&self.inputs) {
            files.extend(resolved.config.bootstrap.certificate_files());
            files.extend(resolved.config.envoy.and_then(|envoy| envoy.bootstrap_override));
        }
        files
    }

    fn apply(&mut self) -> Result<()> {
        let Inputs { arguments, files, .. } = &self.inputs;
        self.inputs.files = files.read_again(&arguments.mesh_config)?;
        let Resolved { config, warnings } = config::resolve(&self.inputs)?;
        let Self { started, inputs, parts, .. } = self;
        let fixed = config::needing_new_container(started, &config, &inputs.environment);
        if !fixed.is_empty() {
            bail!(
                "{} changed since the start of the agent, which needs a new container; create a \
                 new pod, or take the change back",
                fixed.join(", ")
            );
        }
        let targets = config.status.as_ref().map(ScrapeTarget::parse_all).transpose()?;
        let next = config.envoy.is_some().then(|| desired(&config)).transpose()?;

        // From here on, all of it is applied.
        let discovery = ChannelOptions::of_discovery(&config);
        let address = discovery.address.clone();
        if parts.control_plane.set(discovery) {
            tracing::info!("new connections to the control plane go to {address}");
        }
        if let Some(service) = &parts.certificate_service {
            let Config { certificates, pod, paths, .. } = &config;
            service.set(ChannelOptions::of_certificates(certificates, pod, paths));
        }
        if let (Some(scraper), Some(targets)) = (&parts.scraper, targets) {
            scraper.set_targets(targets);
        }
        match (&parts.desired, next) {
            (Some(desired), Some(next)) => drop(desired.send_if_modified(|current| {
                let is_new = **current != next;
                if is_new {
                    *current = Arc::new(next);
                }
                is_new
            })),
            _ => write_grpc(&config)?,
        }
        self.warn(&config, warnings);
        Ok(())
    }

    /// Logs new warnings, and changed fields without effect.
    fn warn(&mut self, config: &Config, mut warnings: Vec<String>) {
        let ineffective = config::without_effect(&self.started, config).into_iter();
        warnings.extend(ineffective.map(|(field, reason)| {
            format!("the changed {field} of ProxyConfig has no effect on this pod: {reason}")
        }));
        for warning in warnings.iter().filter(|warning| !self.warnings.contains(warning)) {
            tracing::warn!("{warning}");
        }
        self.warnings = warnings;
    }
}

/// The kubelet needs up to a minute to write a changed annotation.
const INTERVAL: Duration = Duration::from_secs(1);
