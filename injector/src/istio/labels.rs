//! Labels of Istio that decide about injection.

/// The label and annotation by which a pod opts in or out.
pub const INJECT: &str = "sidecar.istio.io/inject";

/// The label by which a pod or a namespace asks for a revision.
pub const REVISION: &str = "istio.io/rev";
