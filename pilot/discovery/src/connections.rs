//! Streams of proxies, as debug pages show them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use pilot_routing::view::ProxyView;
use pilot_xds::session::TypeView;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::identity::Caller;
use crate::publish::ProxyId;
use crate::stream_rate::{StreamRate, TooManyStreams};

/// Open streams. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    open: Arc<Mutex<BTreeMap<ProxyId, Arc<Connected>>>>,
    /// Limit of the rate of new streams.
    rate: StreamRate,
}

/// Open stream of a proxy.
#[derive(Debug)]
pub struct Connected {
    /// The proxy.
    pub proxy: ProxyView,
    /// Its identity; `None` on the plaintext listener.
    pub caller: Option<Caller>,
    /// Time at which the stream was admitted.
    pub since: Timestamp,
    /// Requests for the state of the session.
    pub inspections: mpsc::Sender<oneshot::Sender<Vec<TypeView>>>,
}

impl Connections {
    /// Limits the rate of new streams.
    pub fn with_rate(rate: StreamRate) -> Self {
        Self { rate, ..Self::default() }
    }

    /// Admits a new stream when its turn has come.
    pub async fn admit(&self) -> Result<(), TooManyStreams> {
        self.rate.admit().await
    }

    /// Adds a stream.
    pub fn add(&self, id: ProxyId, connected: Connected) {
        self.lock().insert(id, Arc::new(connected));
    }

    /// Removes a stream.
    pub fn remove(&self, id: ProxyId) {
        self.lock().remove(&id);
    }

    /// Lists the streams.
    pub fn list(&self) -> Vec<(ProxyId, Arc<Connected>)> {
        self.lock().iter().map(|(id, connected)| (*id, Arc::clone(connected))).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ProxyId, Arc<Connected>>> {
        // Each change is one call: a panic elsewhere leaves no half of one.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connected {
    /// Name of the proxy, `POD.NAMESPACE`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.proxy.pod, self.proxy.namespace)
    }

    /// State of the session. Empty if the stream ends, or is blocked by its client.
    pub async fn inspect(&self) -> Vec<TypeView> {
        let inspect = async {
            let (reply, view) = oneshot::channel();
            self.inspections.send(reply).await.ok()?;
            view.await.ok()
        };
        timeout(PATIENCE, inspect).await.ok().flatten().unwrap_or_default()
    }
}

const PATIENCE: Duration = Duration::from_secs(1);
