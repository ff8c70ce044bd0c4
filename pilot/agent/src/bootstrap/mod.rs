//! Envoy's bootstrap as a typed value.
