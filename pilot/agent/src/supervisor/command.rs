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
        add("--parent-shutdown-time-s", desired.parent_shutdown_time.as_secs().to_string());
        // Counters of the parent would make the child appear configured.
        arguments.push("--skip-hot-restart-parent-stats".into());
    } else {
        arguments.push("--disable-hot-restart".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::config::DrainOptions;

    fn line(hot_restart: bool, override_text: Option<&str>) -> String {
        let envoy = EnvoyOptions {
            binary: "envoy".into(),
            admin_port: 15000,
            readiness_port: 15021,
            prometheus_port: 15090,
            log_level: "warning".to_owned(),
            component_log_level: None,
            concurrency: None,
            drain_time: Duration::from_secs(45),
            parent_shutdown_time: Duration::from_secs(50),
            bootstrap_override: None,
            hot_restart,
            exit_on_changed_bootstrap: false,
            base_id: 7,
        };
        let desired = Desired {
            bootstrap: Value::Null,
            arguments: vec!["--concurrency".to_owned(), "2".to_owned()],
            override_text: override_text.map(str::to_owned),
            certificates: Vec::new(),
            parent_shutdown_time: Duration::from_secs(50),
            drain: DrainOptions {
                duration: Duration::ZERO,
                minimum: Duration::ZERO,
                exit_on_zero_connections: false,
            },
        };
        let path = Path::new("etc/envoy-rev3.json");
        let words = arguments(&envoy, &desired, path, hot_restart, 3);
        words.join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn epoch_has_its_file_and_number() {
        assert_eq!(
            line(true, None),
            "--config-path etc/envoy-rev3.json --concurrency 2 --base-id 7 --restart-epoch 3 \
             --parent-shutdown-time-s 50 --skip-hot-restart-parent-stats"
        );
    }

    #[test]
    fn override_is_merged_by_envoy() {
        let line = line(false, Some(r#"{"node": {}}"#));
        let expected = r#"--concurrency 2 --config-yaml {"node": {}} --disable-hot-restart"#;
        assert!(line.ends_with(expected), "{line}");
    }
}
