//! Arguments of the hidden commands.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Arguments of `istio-iptables`.
#[derive(Clone, Debug, Args)]
pub struct IptablesArgs {
    /// Arguments for `istio-init`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Arguments of `envoy-child`.
#[derive(Clone, Debug, Args)]
pub struct EnvoyChildArgs {
    /// Process id of the agent
    pub parent: u32,
    /// Path of Envoy
    pub envoy: PathBuf,
    /// Arguments for Envoy
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}
