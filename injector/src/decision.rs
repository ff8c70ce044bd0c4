//! Whether a pod is injected, and why not.

/// Which rules decide.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rules {
    /// The webhook's: namespaces that are never injected, policy and selectors of the
    /// configuration.
    Admission,
    /// `istioctl kube-inject`'s: the user asked for it, so policy and selectors do not count; a
    /// pod's own opt-out and host networking do.
    Manual,
}
