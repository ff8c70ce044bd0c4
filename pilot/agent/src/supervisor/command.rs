//! Envoy's command line.

use std::ffi::OsString;
use std::path::Path;

use super::Desired;
use crate::config::EnvoyOptions;

/// Returns the arguments of one epoch. Without hot restart, `epoch` has no effect.
pub(super) fn arguments(
    envoy: &EnvoyOptions,
    desired: &Desired,
    bootstrap: &Path,
    hot_restart: bool,
    epoch: u32,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--config-path".into(), bootstrap.into()];
    arguments.extend(desired.arguments.iter().map(OsString::from));
    let mut add = |name: &str, value: String| arguments.extend([name.into(), value.into()]);
    if let Some(text) = &desired.override_text {
        add("--config-yaml", text.clone());
    }
    if hot_restart {
        add("--base-id", envoy.base_id.to_string());
        add("--restart-epoch", epoch.to_string());
        add("--parent-shutdown-time-s", envoy.parent_shutdown_time.as_secs().to_string());
        // Counters of the parent would make the child appear configured.
        arguments.push("--skip-hot-restart-parent-stats".into());
    } else {
        arguments.push("--disable-hot-restart".into());
    }
    arguments
}
