//! The one way in which bundles get into a webhook configuration.

use tokio::sync::watch;

use super::call_error::CallError;
use super::notices::Notices;
use super::objects::{Objects, configuration_path};
use super::writes::{WriteError, Writes};
use crate::bundle::Bundle;
use crate::status::Status;

/// The bundles of one configuration, for the very object that was observed.
pub(super) struct Publication<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    pub(super) resource_version: &'a str,
    /// Each managed entry's name and its bundle.
    pub(super) entries: &'a [(String, Bundle)],
}

impl Publication<'_> {
    /// Writes the bundles where the budget allows it, and counts what became of it.
    pub(super) async fn publish(
        &self,
        objects: &Objects,
        writes: &mut Writes<'_>,
        notices: &mut Notices<'_>,
        status: &watch::Sender<Status>,
    ) -> Result<(), PublicationError> {
        let Self { name, uid, resource_version, entries } = *self;
        let path = configuration_path(name);
        writes.spend(PATCH, path.clone())?;
        let published = objects.publish(name, (uid, resource_version), entries).await;
        status.send_modify(|status| {
            let outcome = published.as_ref().map(drop).map_err(CallError::is_conflict);
            status.patches.entry(name.to_owned()).or_default().count(outcome);
        });
        writes.heed(PATCH, &path, published.as_ref().err());
        // Whoever was faster, an attempt that failed has been paid for.
        notices.contention.written(name, published.as_ref().ok().copied());
        published.map(drop).map_err(PublicationError::Call)
    }
}

/// Why bundles were not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublicationError {
    #[error(transparent)]
    Call(CallError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

const PATCH: &str = "patch";
