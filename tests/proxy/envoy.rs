//! Starting Envoy in the place of this program.

use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::app_probe::app_probes;
use crate::bootstrap::{Families, Pod, bootstrap};

/// Writes the bootstrap and becomes Envoy; returns only when that fails.
pub(crate) fn become_envoy(flags: &[&str]) -> Result<()> {
    let variable = |name: &str| env::var(name).with_context(|| format!("reading {name}"));
    let pod = Pod {
        name: variable("POD_NAME")?,
        namespace: variable("POD_NAMESPACE")?,
        address: variable("INSTANCE_IP")?,
        families: if Path::new("/proc/net/if_inet6").exists() {
            Families::Both
        } else {
            Families::Ipv4
        },
        app_probes: match env::var("ISTIO_KUBE_APP_PROBERS") {
            Ok(probes) => app_probes(&probes)?,
            Err(_) => Vec::new(),
        },
    };
    let path = Path::new(FOLDER).join("envoy.json");
    fs::write(&path, format!("{:#}", bootstrap(&pod)))
        .with_context(|| format!("writing {}", path.display()))?;
    let mut envoy = Command::new("envoy");
    envoy.arg("--config-path").arg(&path);
    envoy.args(["--disable-hot-restart", "--concurrency", "2"]);
    // The connections that it logs are looked for soon.
    envoy.args(["--file-flush-interval-msec", "100"]);
    for (flag, envoy_flag) in LOG_FLAGS {
        if let Some(level) = flags.iter().find_map(|given| value_of(given, flag)) {
            envoy.args([envoy_flag, level]);
        }
    }
    Err(envoy.exec()).context("starting envoy")
}

fn value_of<'a>(given: &'a str, flag: &str) -> Option<&'a str> {
    given.strip_prefix(flag)?.strip_prefix('=')
}

/// The injected container mounts it, so it can be written to.
const FOLDER: &str = "/etc/istio/proxy";

const LOG_FLAGS: [(&str, &str); 2] =
    [("--proxyLogLevel", "--log-level"), ("--proxyComponentLogLevel", "--component-log-level")];
