//! Envoy's command line.

use super::address::Families;
use crate::config::{Config, EnvoyOptions};

/// Returns Envoy's arguments, except those about files, epochs and hot restart, which the
/// supervisor adds.
pub fn arguments(config: &Config, envoy: &EnvoyOptions) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut put = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    put("--drain-time-s", envoy.drain_time.as_secs().to_string());
    put("--drain-strategy", "immediate".to_owned());
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
    arguments.push("--allow-unknown-static-fields".to_owned());
    arguments
}
