//! Publication of bundles in webhook configurations.

use tokio::sync::watch;

use super::api::{ClusterApi, configuration_path};
use super::call_error::CallError;
use super::reporting::Reporter;
use super::writes::{WriteError, Writes};
use crate::rotation::BundlePatch;
use crate::status::Status;

/// Writes bundles within the write budget and counts the result.
pub(super) async fn publish(
    patch: &BundlePatch,
    api: &ClusterApi,
    writes: &mut Writes<'_>,
    reporter: &mut Reporter<'_>,
    status: &watch::Sender<Status>,
) -> Result<(), PublicationError> {
    let name = &patch.name;
    let path = configuration_path(name);
    writes.spend(PATCH, path.clone())?;
    let published = api.publish(patch).await;
    status.send_modify(|status| {
        let outcome = published.as_ref().map(drop).map_err(CallError::is_conflict);
        status.patches.entry(name.to_owned()).or_default().count(outcome);
    });
    writes.record_forbidden(PATCH, &path, published.as_ref().err());
    // Failed attempts count too.
    reporter.contention.record_write(name, published.as_ref().ok().copied());
    published.map(drop).map_err(PublicationError::Call)
}

/// Reason for which bundles were not written.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublicationError {
    #[error(transparent)]
    Call(CallError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

const PATCH: &str = "patch";
