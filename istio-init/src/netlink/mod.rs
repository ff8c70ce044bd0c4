//! The kernel's interfaces: netlink sockets and messages, addresses and routes, and the lock of a
//! network namespace.
//!
//! Changes need `CAP_NET_ADMIN` in the user namespace that owns the network namespace.

pub mod address;
pub(crate) mod attribute_value;
pub(crate) mod dump;
pub mod errno_hint;
pub mod error;
pub mod host_namespace;
pub mod link;
pub mod lock_holders;
pub(crate) mod message;
pub mod netns_lock;
pub(crate) mod nf_tables;
pub mod outside_namespace;
pub(crate) mod privileges;
pub(crate) mod route;
pub(crate) mod socket;
pub(crate) mod timeout;
