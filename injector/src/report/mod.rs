//! Comparison of a cluster's pods with a fresh injection.
//!
//! All functions are pure. `hook` parses the webhook configurations. [`inspection`] evaluates the
//! API server's selectors and then the injector's own decision on a pod. [`sidecar_state`] compares
//! the pod with the answer. [`explanation`], [`inventory`] and [`tally`] summarise the results for
//! users and for metrics.

pub mod entry_explanation;
pub mod explanation;
pub mod injected_parts;
pub mod inspection;
pub mod inventory;
pub mod sidecar_state;
pub mod tally;
