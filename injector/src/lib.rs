//! Istio-compatible sidecar injection.
