//! Whether proxies become native sidecars, as both programs are told.

use clap::ValueEnum;

/// The value of `ENABLE_NATIVE_SIDECARS`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum NativeSidecars {
    /// As Kubernetes allows, which every supported version does.
    Auto,
    /// Never.
    False,
    /// Always.
    True,
}

impl NativeSidecars {
    /// Whether the proxy becomes one where a pod does not say.
    pub fn by_default(self) -> bool {
        self != Self::False
    }
}
