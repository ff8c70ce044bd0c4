//! The pod of a review, for the log.

/// Subject of a review, for the log.
#[derive(Debug, Default)]
pub(crate) struct ReviewedPod {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    /// `kind/name` of the owner, or the pod's own name, or what its name will begin with.
    pub(crate) name: String,
    pub(crate) dry_run: bool,
}
