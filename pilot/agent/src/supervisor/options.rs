//! Settings of supervision.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::machine::{Settings, drain};
use crate::config::{Config, DrainOptions, EnvoyOptions, Role};

/// Settings of supervision.
#[derive(Clone, Debug)]
pub struct Options {
    /// Program of the agent, whose subcommand `envoy-child` starts Envoy.
    pub agent: PathBuf,
    /// Envoy's process.
    pub envoy: EnvoyOptions,
    /// Draining at shutdown.
    pub drain: DrainOptions,
    /// Role of Envoy: a gateway drains all listeners, a sidecar the inbound ones.
    pub role: Role,
    /// Address of Envoy's admin interface.
    pub admin: SocketAddr,
    /// Writable folder of the bootstrap files.
    pub configuration: PathBuf,
    /// Time until a new Envoy must be live.
    pub guard: Duration,
}

impl Options {
    /// Returns the settings, or `None` with `DISABLE_ENVOY`.
    pub fn new(config: &Config) -> Option<Self> {
        let envoy = config.envoy.clone()?;
        let is_ipv6 = config
            .pod
            .addresses
            .first()
            .is_some_and(|_| config.pod.addresses.iter().all(std::net::IpAddr::is_ipv6));
        let loopback =
            if is_ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        Some(Self {
            agent: "/proc/self/exe".into(),
            drain: config.drain.clone(),
            role: config.role,
            admin: SocketAddr::new(loopback, envoy.admin_port),
            configuration: config.paths.configuration.clone(),
            guard: GUARD,
            envoy,
        })
    }

    /// Returns the settings of the state machine.
    pub(super) fn machine(&self) -> Settings {
        Settings {
            guard: self.guard,
            parent_exit: self.envoy.parent_shutdown_time + PARENT_MARGIN,
            exit_on_changed_bootstrap: self.envoy.exit_on_changed_bootstrap,
            drain: drain::Plan::new(&self.drain),
        }
    }
}

/// A bootstrap that Envoy is to run with.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Envoy's bootstrap.
    pub bootstrap: Value,
    /// Envoy's arguments, except those about files, epochs and hot restart.
    pub arguments: Vec<String>,
    /// Content of `ISTIO_BOOTSTRAP_OVERRIDE`, which Envoy merges over the bootstrap.
    pub override_text: Option<String>,
    /// Digests of the certificates in the bootstrap. Envoy reads such a file once.
    pub certificates: Vec<u64>,
}

impl Desired {
    /// True if Envoy waits for resources of the control plane before it is live.
    pub(super) fn is_dynamic(&self) -> bool {
        let dynamic = self.bootstrap.get("dynamic_resources");
        dynamic.and_then(Value::as_object).is_some_and(|dynamic| !dynamic.is_empty())
    }
}

/// Long enough for the configuration of a large mesh, on a node that starts many pods.
const GUARD: Duration = Duration::from_secs(60);
/// Time for a parent to exit after its shutdown time.
const PARENT_MARGIN: Duration = Duration::from_secs(5);
