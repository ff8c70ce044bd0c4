//! Envoy's command line.

use std::ffi::OsString;
use std::path::Path;

use super::Options;

/// Returns the arguments of one epoch. Without hot restart, `epoch` has no effect.
pub(super) fn arguments(
    options: &Options,
    hot_restart: bool,
    epoch: u32,
    bootstrap: &Path,
    override_text: Option<&str>,
) -> Vec<OsString> {
    let envoy = &options.envoy;
    let mut arguments: Vec<OsString> = vec!["--config-path".into(), bootstrap.into()];
    let mut add = |name: &str, value: String| {
        arguments.push(name.into());
        arguments.push(value.into());
    };
    add("--drain-time-s", envoy.drain_time.as_secs().to_string());
    add("--drain-strategy", "immediate".to_owned());
    add("--local-address-ip-version", if options.admin.is_ipv6() { "v6" } else { "v4" }.to_owned());
    add("--file-flush-interval-msec", "1000".to_owned());
    add("--log-level", envoy.log_level.clone());
    if let Some(levels) = &envoy.component_log_level {
        add("--component-log-level", levels.clone());
    }
    if let Some(concurrency) = envoy.concurrency.filter(|concurrency| *concurrency > 0) {
        add("--concurrency", concurrency.to_string());
    }
    if let Some(text) = override_text {
        add("--config-yaml", text.to_owned());
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
    arguments.push("--allow-unknown-static-fields".into());
    arguments
}
