//! Certificates of an admission webhook: a shared CA, a leaf per replica, and the trust of API
//! servers in them.
//!
//! [`cluster::maintain`] keeps all three right for as long as it runs; [`files`] serves what
//! somebody else issued. Either way the listener takes its certificate from
//! [`serving::ServingCertificate`].

pub mod authority;
pub mod bundle;
pub mod ca_numbers;
pub mod cause;
pub mod certificate_directory;
pub mod clock;
pub mod cluster;
pub mod contention;
pub mod duration;
pub mod exclusive;
pub mod files;
pub mod followed;
pub mod kubeconfig;
pub mod names;
pub mod news;
pub mod options;
pub mod parameter_args;
mod pem_error;
pub mod probe;
pub mod requests;
pub mod rotation;
pub mod secret;
pub mod server_names;
pub mod serving;
pub mod signing;
pub mod status;
pub mod write_budget;
