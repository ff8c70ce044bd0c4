//! Environment variables that have no flag.

use std::fmt;

/// An environment variable without a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// Groups whose outbound traffic is captured; `*` for all.
    OwnerGroups,
    /// Groups whose outbound traffic is not captured.
    OwnerGroupsExclude,
    /// The IPv4 range that is this pod's loopback.
    LoopbackCidr,
    /// User whose uid is the default of `--proxy-uid`.
    EnvoyUser,
    /// Set by old scripts; Istio ignores it.
    EnvoyPort,
    /// File that Istio's dry run writes to.
    DryRunFilePath,
    /// Read by Istio's script of 2018.
    DisableRedirectionOnLocalLoopback,
}

impl Variable {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::OwnerGroups,
        Self::OwnerGroupsExclude,
        Self::LoopbackCidr,
        Self::EnvoyUser,
        Self::EnvoyPort,
        Self::DryRunFilePath,
        Self::DisableRedirectionOnLocalLoopback,
    ];

    /// Name of the environment variable.
    pub fn name(self) -> &'static str {
        match self {
            Self::OwnerGroups => "ISTIO_OUTBOUND_OWNER_GROUPS",
            Self::OwnerGroupsExclude => "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE",
            Self::LoopbackCidr => "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR",
            Self::EnvoyUser => "ENVOY_USER",
            Self::EnvoyPort => "ENVOY_PORT",
            Self::DryRunFilePath => "DRY_RUN_FILE_PATH",
            Self::DisableRedirectionOnLocalLoopback => "DISABLE_REDIRECTION_ON_LOCAL_LOOPBACK",
        }
    }

    /// Meaning of the value.
    pub fn help(self) -> &'static str {
        match self {
            Self::OwnerGroups => {
                "Groups whose outbound traffic is captured: comma list, `*` for all"
            }
            Self::OwnerGroupsExclude => "Groups whose outbound traffic is not captured: comma list",
            Self::LoopbackCidr => "The IPv4 range that is this pod's loopback",
            Self::EnvoyUser => "User whose uid is the default of `--proxy-uid`",
            Self::EnvoyPort => "No effect, as in Istio; use `--envoy-port`",
            Self::DryRunFilePath => "No effect; a dry run prints to stdout",
            Self::DisableRedirectionOnLocalLoopback => {
                "No effect any more; to capture loopback, name its range in `--istio-service-cidr`"
            }
        }
    }

    /// Value used if the variable is unset.
    pub fn default(self) -> &'static str {
        match self {
            Self::OwnerGroups => "*",
            Self::LoopbackCidr => "127.0.0.1/32",
            Self::EnvoyUser => "istio-proxy",
            _ => "",
        }
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
