//! Relay of xDS between Envoy and the control plane.
//!
//! Every stream of Envoy has its own upstream stream on its own connection, and either end closes
//! both: no message crosses connections. Frames pass on as bytes. The agent subscribes to types of
//! its own on the same upstream streams; their responses end here.
//!
//! Several streams may be open: during a hot restart two Envoys run, and with `DISABLE_ENVOY` every
//! gRPC application of the pod opens one.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use self::answered::Answered;
pub use self::debug::{DEBUG_PORT, DebugServer};
pub use self::metrics::Metrics;
pub use self::own_types::{ApplicationHealth, NameInfo, NameTable};
pub use self::server::{Listener, RelayError};
use crate::channel::ControlPlane;
use crate::config::Config;
use crate::health::Health;

mod answered;
mod debug;
mod metrics;
pub mod own_types;
mod queue;
mod server;
mod stream;
mod subscription;

/// Settings of the relay.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Unix socket that Envoy connects to.
    pub socket: PathBuf,
    /// Lets other users connect: applications in other containers, without Envoy.
    pub shared: bool,
    /// Subscribes to the name table.
    pub names: bool,
    /// Subscribes to `ProxyConfig` for additional roots.
    pub additional_roots: bool,
}

impl RelayOptions {
    /// Returns the options of an agent.
    pub fn new(config: &Config) -> Self {
        Self {
            socket: config.paths.configuration.join("XDS"),
            shared: config.envoy.is_none(),
            names: config.dns.is_some(),
            additional_roots: config.discovery.additional_roots,
        }
    }
}

/// Health of the application; `None` while unknown.
pub type Application = watch::Receiver<Option<ApplicationHealth>>;

/// The relay. Clones share all state.
#[derive(Clone, Debug)]
pub struct Relay {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    options: RelayOptions,
    control_plane: ControlPlane,
    answered: Answered,
    application: Application,
    health: Arc<Health>,
    metrics: Metrics,
    names: watch::Sender<Option<NameTable>>,
    roots: watch::Sender<Vec<String>>,
}

impl Relay {
    /// Creates the relay. It reports changes of `application` to the control plane.
    pub fn new(
        options: RelayOptions,
        control_plane: ControlPlane,
        application: Application,
        health: Arc<Health>,
        metrics: Metrics,
    ) -> Self {
        let names = watch::Sender::new(None);
        let roots = watch::Sender::new(Vec::new());
        let answered = Answered::default();
        let state =
            State { options, control_plane, answered, application, health, metrics, names, roots };
        Self { state: Arc::new(state) }
    }

    /// Returns the name table; `None` before the first one.
    pub fn names(&self) -> watch::Receiver<Option<NameTable>> {
        self.state.names.subscribe()
    }

    /// Returns the additional roots, as PEM.
    pub fn roots(&self) -> watch::Receiver<Vec<String>> {
        self.state.roots.subscribe()
    }
}
