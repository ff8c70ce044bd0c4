//! Configuration documents: YAML as Kubernetes' tools read it, typed, with unknown keys and
//! suggestions.

pub mod excerpt;
pub mod kubernetes_object;
pub mod notice;
pub mod nulls;
pub mod suggest;
pub mod typed;
pub mod unknown_keys;
pub mod yaml;
