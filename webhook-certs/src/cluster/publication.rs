//! The one way in which bundles get into a webhook configuration.

use tokio::sync::watch;

use super::call_error::CallError;
use super::notices::Notices;
use super::objects::{Objects, configuration_path};
use super::writes::{WriteError, Writes};
use crate::rotation::BundlePatch;
use crate::status::Status;

/// Writes the bundles where the budget allows it, and counts what became of it.
pub(super) async fn publish(
    patch: &BundlePatch,
    objects: &Objects,
    writes: &mut Writes<'_>,
    notices: &mut Notices<'_>,
    status: &watch::Sender<Status>,
) -> Result<(), PublicationError> {
    let name = &patch.name;
    let path = configuration_path(name);
    writes.spend(PATCH, path.clone())?;
    let published = objects.publish(patch).await;
    status.send_modify(|status| {
        let outcome = published.as_ref().map(drop).map_err(CallError::is_conflict);
        status.patches.entry(name.to_owned()).or_default().count(outcome);
    });
    writes.heed(PATCH, &path, published.as_ref().err());
    // Whoever was faster, an attempt that failed has been paid for.
    notices.contention.written(name, published.as_ref().ok().copied());
    published.map(drop).map_err(PublicationError::Call)
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
