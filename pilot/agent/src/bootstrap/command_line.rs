//! Envoy's command line.

use std::path::Path;

use super::address::Families;
use crate::config::{Config, EnvoyOptions};

/// Returns Envoy's arguments without `--base-id` and `--restart-epoch`. `bootstrap` is the file with
/// the bootstrap, `override_text` the content of the file that Envoy merges over it.
pub fn arguments(
    config: &Config,
    envoy: &EnvoyOptions,
    bootstrap: &Path,
    override_text: Option<&str>,
) -> Vec<String> {
    let mut arguments = vec!["--config-path".to_owned(), bootstrap.display().to_string()];
    let mut put = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    put("--drain-time-s", envoy.drain_time.as_secs().to_string());
    put("--drain-strategy", "immediate".to_owned());
    put("--parent-shutdown-time-s", envoy.parent_shutdown_time.as_secs().to_string());
    let families = Families::new(&config.pod.addresses);
    put("--local-address-ip-version", families.local_version().to_owned());
    put("--file-flush-interval-msec", config.bootstrap.file_flush_interval.as_millis().to_string());
    if let Some(size) = config.bootstrap.file_flush_size_kb {
        put("--file-flush-min-size-kb", size.to_string());
    }
    put("--log-level", envoy.log_level.clone());
    if let Some(levels) = &envoy.component_log_level {
        put("--component-log-level", levels.clone());
    }
    if let Some(threads) = envoy.concurrency {
        put("--concurrency", threads.to_string());
    }
    if let Some(text) = override_text {
        put("--config-yaml", text.to_owned());
    }
    arguments.push("--allow-unknown-static-fields".to_owned());
    arguments
}
