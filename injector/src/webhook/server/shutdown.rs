//! Shutdown phase of the process, broadcast to connections.

use tokio::sync::watch;

/// Shutdown phase; it only advances.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ShutdownPhase {
    /// Connections are kept for further requests.
    Serving,
    /// Each response closes its connection, so that clients connect elsewhere: Kubernetes is
    /// removing this process's address from the endpoints.
    Leaving,
    /// No connection is accepted, idle ones are closed, and busy ones close after their response.
    Ended,
}

impl ShutdownPhase {
    /// Returns a channel that starts at [`ShutdownPhase::Serving`]. A dropped sender leaves the
    /// last phase.
    pub fn channel() -> (watch::Sender<Self>, watch::Receiver<Self>) {
        watch::channel(Self::Serving)
    }
}

/// Completes at [`ShutdownPhase::Ended`].
pub(in crate::webhook) async fn ended(mut phases: watch::Receiver<ShutdownPhase>) {
    if phases.wait_for(|phase| *phase == ShutdownPhase::Ended).await.is_err() {
        std::future::pending::<()>().await;
    }
}
