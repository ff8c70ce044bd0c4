//! Istio-compatible sidecar injection.
//!
//! [`inject::inject`] is injection as a pure function: from a pod and the [`settings`] it returns
//! the injected pod, its patch and warnings. [`webhook`] serves it to an API server. `cli`
//! applies it to files. The other modules depend on neither. [`report`] compares the pods that
//! [`cluster`] reads with a fresh injection, and [`analysis`] reports problems of a cluster.

pub mod analysis;
pub mod budget;
pub mod cluster;
pub mod inject;
pub mod istio;
pub mod json;
pub mod kubernetes;
pub mod manifest;
pub mod overlay;
pub mod report;
pub mod settings;
pub mod sources;
pub mod template;
pub mod uninject;
pub mod webhook;
