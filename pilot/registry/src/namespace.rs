//! Namespaces.

use std::sync::Arc;

use crate::labels::Labels;

/// Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: Labels,
}
