//! Arguments of `proxy`.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use mesh::log_levels;

use super::{AbsentArgs, ClassicArgs};

/// Arguments of `proxy`.
#[derive(Clone, Debug, Args)]
pub struct ProxyArgs {
    /// Role of Envoy
    #[arg(value_enum, default_value = "sidecar")]
    pub role: RoleArg,
    /// DNS suffix of the pod's own Services
    /// [default: NAMESPACE.svc.cluster.local]
    #[arg(long)]
    pub domain: Option<String>,
    /// File with the mesh configuration; gateways mount it
    #[arg(long = "meshConfig", value_name = "FILE", default_value = MESH_CONFIG)]
    pub mesh_config: PathBuf,
    /// Envoy's log level
    #[arg(long = "proxyLogLevel", value_name = "LEVEL", default_value = "warning", value_parser = log_levels::OF_ENVOY)]
    pub proxy_log_level: String,
    /// Envoy's log levels by component
    #[arg(
        long = "proxyComponentLogLevel",
        value_name = "COMPONENT:LEVEL,...",
        default_value = "misc:error",
        value_parser = component_levels
    )]
    pub proxy_component_log_level: String,
    /// File that Envoy appends outlier detection events to [default: none]
    #[arg(long = "outlierLogPath", value_name = "FILE")]
    pub outlier_log_path: Option<String>,
    /// Number of Envoy's worker threads if neither `ProxyConfig` nor the CPU limit sets one; 0 for
    /// one per CPU [default: 0]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_THREADS)))]
    pub concurrency: Option<u32>,
    /// Apply a changed bootstrap by a hot restart of Envoy [default: that of
    /// `OUTRIGGER_HOT_RESTART`, else true]
    #[arg(long = "hotRestart", value_name = "true|false", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true,
          value_parser = BoolishValueParser::new())]
    pub hot_restart: Option<bool>,
    /// Drain and exit where a changed bootstrap cannot be applied by a hot restart
    /// [default: that of `OUTRIGGER_EXIT_ON_BOOTSTRAP_CHANGE`, else false]
    #[arg(long = "exitOnBootstrapChange", value_name = "true|false", num_args = 0..=1,
          require_equals = true, default_missing_value = "true", hide_possible_values = true,
          value_parser = BoolishValueParser::new())]
    pub exit_on_bootstrap_change: Option<bool>,
    /// Flags of 2017.
    #[command(flatten)]
    pub classic: ClassicArgs,
    /// Flags whose function does not exist.
    #[command(flatten)]
    pub absent: AbsentArgs,
}

/// Role of Envoy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum RoleArg {
    /// Sidecar of an application, whose connections it captures
    Sidecar,
    /// Gateway, which captures no connections
    Router,
}

/// Validates Envoy's `COMPONENT:LEVEL,...`; an empty list is valid.
fn component_levels(text: &str) -> Result<String, String> {
    if log_levels::are_of_components(text) {
        return Ok(text.to_owned());
    }
    let levels = log_levels::OF_ENVOY.join(", ");
    Err(format!("expected COMPONENT:LEVEL,... with the levels {levels}"))
}

/// The mesh file that gateways mount.
pub(crate) const MESH_CONFIG: &str = "./etc/istio/config/mesh";
/// Maximum of Envoy's worker threads; a larger number is a mistake.
pub(crate) const MOST_THREADS: u32 = 65535;
