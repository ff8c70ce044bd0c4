//! Certificates of an admission webhook: a shared CA, a leaf per replica, and the trust of API
//! servers in them.
//!
//! [`cluster::maintain`] keeps all three valid for as long as it runs; [`certificate_files`] serves
//! a certificate that another program issues. Either way the listener takes its certificate from
//! [`serving::ServingCertificate`].

pub mod authority;
pub mod bundle;
pub mod certificate_files;
pub mod cli;
pub mod cluster;
pub mod options;
mod pem_error;
pub mod rotation;
pub mod secret;
pub mod server_names;
pub mod serving;
pub mod status;
pub mod workload;
