//! Istio-compatible sidecar injection.
//!
//! [`inject::inject`] is the whole of it as a pure function: a pod and the [`settings`] in, the
//! injected pod with its patch and warnings out. [`webhook`] serves it to an API server, [`cli`]
//! applies it to files; neither is known to the modules before them. [`report`] says which pods are not
//! as injection would have them, of what [`cluster`] reads.

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
pub mod template;
pub mod webhook;
