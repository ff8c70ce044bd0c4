//! Settings of supervision.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::machine::{Settings, drain};
use crate::channel::ControlPlane;
use crate::config::{Config, DrainOptions, EnvoyOptions, Role};

/// Settings of supervision.
#[derive(Clone, Debug)]
pub struct Options {
    /// Program of the agent, whose subcommand `envoy-child` starts Envoy.
    pub agent: PathBuf,
    /// Envoy's process.
    pub envoy: EnvoyOptions,
    /// Control plane that a new Envoy waits for; `None` in tests without one.
    pub control_plane: Option<ControlPlane>,
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
    pub fn new(config: &Config, control_plane: ControlPlane) -> Option<Self> {
        let envoy = config.envoy.clone()?;
        Some(Self {
            agent: "/proc/self/exe".into(),
            control_plane: Some(control_plane),
            role: config.role,
            admin: SocketAddr::new(config.pod.loopback(), envoy.admin_port),
            configuration: config.paths.configuration.clone(),
            guard: GUARD,
            envoy,
        })
    }

    /// Returns the settings of the state machine.
    pub(super) fn machine(&self, desired: &Desired) -> Settings {
        Settings {
            guard: self.guard,
            parent_exit: desired.parent_shutdown_time + PARENT_MARGIN,
            exit_on_changed_bootstrap: self.envoy.exit_on_changed_bootstrap,
            drain: drain::Plan::new(&desired.drain),
        }
    }
}

/// A bootstrap that Envoy is to run with, and times of its end.
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
    /// Life of the old Envoy after a hot restart, `--parent-shutdown-time-s`.
    pub parent_shutdown_time: Duration,
    /// Draining at shutdown. It needs no other Envoy.
    pub drain: DrainOptions,
}

impl Desired {
    /// True if an Envoy of the other one need not be replaced.
    pub(super) fn has_same_envoy(&self, other: &Self) -> bool {
        let Self {
            bootstrap,
            arguments,
            override_text,
            certificates,
            parent_shutdown_time,
            drain: _,
        } = self;
        *bootstrap == other.bootstrap
            && *arguments == other.arguments
            && *override_text == other.override_text
            && *certificates == other.certificates
            && *parent_shutdown_time == other.parent_shutdown_time
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::bootstrap;
    use crate::channel::ChannelOptions;
    use crate::config::tests::{Case, resolved};
    use crate::node::Node;

    #[test]
    fn admin_interface_is_where_the_bootstrap_puts_it() {
        for (first, others) in [
            ("10.0.0.1", &[][..]),
            ("fd00::1", &[]),
            ("10.0.0.1", &["fd00::1"]),
            ("fd00::1", &["10.0.0.1"]),
        ] {
            let environment = [("INSTANCE_IP", first)];
            let case = Case { environment: &environment, interfaces: others, ..Case::default() };
            let config = resolved(&case).config;
            let channel = ControlPlane::new(ChannelOptions::of_discovery(&config), None);
            let options = Options::new(&config, channel).unwrap();
            let bootstrap = bootstrap(&config, &options.envoy, &Node::new(&config));
            let admin = &bootstrap["admin"]["address"]["socket_address"];
            assert_eq!(admin["address"], options.admin.ip().to_string(), "{first} {others:?}");
        }
    }
}
