//! Relay of xDS between Envoy and the control plane.
