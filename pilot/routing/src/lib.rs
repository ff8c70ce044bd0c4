//! Configuration of a proxy, generated from the services model. The crate is pure: a snapshot, the
//! settings of the mesh and a view of the proxy come in, resources come out.

pub mod access_log;
pub mod authorization_policy;
#[cfg(feature = "envoy")]
pub mod envoy;
pub mod node;
pub mod peer_authentication;
pub mod scope;
pub mod view;
