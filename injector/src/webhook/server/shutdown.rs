//! How far the process is on its way out, as its connections are told.

use tokio::sync::watch;

/// What becomes of connections; it only goes forward.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Stage {
    /// They are kept for further requests.
    Serving,
    /// Whoever asks is answered, and told to use another connection from then on: to whoever looks
    /// for this process's address, it is about to go away.
    Leaving,
    /// None is accepted any more, idle ones are closed, and those in use after their answer.
    Ended,
}

impl Stage {
    /// Starts at [`Stage::Serving`]; a sender that is dropped leaves the last stage.
    pub fn channel() -> (watch::Sender<Self>, watch::Receiver<Self>) {
        watch::channel(Self::Serving)
    }
}

/// Completes when the end has come.
pub(in crate::webhook) async fn ended(mut stages: watch::Receiver<Stage>) {
    if stages.wait_for(|stage| *stage == Stage::Ended).await.is_err() {
        std::future::pending::<()>().await;
    }
}
