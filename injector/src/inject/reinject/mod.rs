//! Reinjection: pods that a previous injection changed.

mod conflicts;
pub mod overrides;
pub(crate) mod relocate_proxy;
pub mod status;
pub mod user_containers;
