//! Certificates of workloads: signing requests, and the CA that signs them.
//!
//! Names and usages come from the caller's identity, never from the request: a request gives its
//! public key, and proves that the caller has the private one.

pub mod authority;
pub mod ca_folder;
mod ca_key;
pub mod handover;
pub mod signing_request;
