//! Certificates of the webhook and of its clients.

pub(crate) mod certificate;
pub mod client_ca;
