//! Relay of xDS between Envoy and the control plane.

pub mod own_types;
