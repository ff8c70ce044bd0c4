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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{DrainOptions, EnvoyOptions, Role};

    fn line(hot_restart: bool, override_text: Option<&str>) -> String {
        let options = Options {
            agent: "pilot-agent".into(),
            envoy: EnvoyOptions {
                binary: "envoy".into(),
                admin_port: 15000,
                readiness_port: 15021,
                prometheus_port: 15090,
                log_level: "warning".to_owned(),
                component_log_level: Some("misc:error".to_owned()),
                concurrency: Some(2),
                drain_time: Duration::from_secs(45),
                parent_shutdown_time: Duration::from_secs(50),
                bootstrap_override: None,
                hot_restart,
                exit_on_changed_bootstrap: false,
                base_id: 7,
            },
            drain: DrainOptions {
                duration: Duration::ZERO,
                minimum: Duration::ZERO,
                exit_on_zero_connections: false,
            },
            grace_period: None,
            role: Role::Sidecar,
            admin: ([127, 0, 0, 1], 15000).into(),
            configuration: "etc".into(),
            guard: Duration::ZERO,
        };
        let path = Path::new("etc/envoy-rev3.json");
        let words = arguments(&options, hot_restart, 3, path, override_text);
        words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn epoch_has_its_file_and_number() {
        assert_eq!(
            line(true, None),
            "--config-path etc/envoy-rev3.json --drain-time-s 45 --drain-strategy immediate \
             --local-address-ip-version v4 --file-flush-interval-msec 1000 --log-level warning \
             --component-log-level misc:error --concurrency 2 --base-id 7 --restart-epoch 3 \
             --parent-shutdown-time-s 50 --skip-hot-restart-parent-stats \
             --allow-unknown-static-fields"
        );
    }

    #[test]
    fn override_is_merged_by_envoy() {
        let line = line(false, Some(r#"{"node": {}}"#));
        let expected =
            r#"--config-yaml {"node": {}} --disable-hot-restart --allow-unknown-static-fields"#;
        assert!(line.ends_with(expected), "{line}");
    }
}
