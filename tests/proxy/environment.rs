//! Input of the agent from injection: variables, and the pod's annotations in a file.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::app::AppProbes;

/// The agent's pod.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) address: IpAddr,
    pub(crate) interception: Interception,
    pub(crate) families: Families,
    /// The status port; `None` for no status port.
    pub(crate) status_port: Option<u16>,
    pub(crate) app_probes: AppProbes,
}

/// Capture of connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Interception {
    /// REDIRECT, which changes the destination, or no rules at all.
    Redirect,
    /// TPROXY, which keeps the addresses, so that the proxy can use the client's address.
    Tproxy,
}

/// Address families of the pod's kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Families {
    Ipv4,
    Both,
}

impl Pod {
    /// Returns the pod of this process.
    pub(crate) fn current() -> Result<Self> {
        // Without the volume the pod has no annotations.
        let annotations = fs::read_to_string("/etc/istio/pod/annotations").unwrap_or_default();
        let families =
            if Path::new("/proc/net/if_inet6").exists() { Families::Both } else { Families::Ipv4 };
        Self::read(|name| std::env::var(name).ok(), &annotations, families)
    }

    fn read(
        variable: impl Fn(&str) -> Option<String>,
        annotations: &str,
        families: Families,
    ) -> Result<Self> {
        let needed = |name: &str| variable(name).with_context(|| format!("{name} is not set"));
        let address = needed("INSTANCE_IP")?;
        let app_probes = match variable("ISTIO_KUBE_APP_PROBERS") {
            Some(probes) => AppProbes::parse(&probes).context("ISTIO_KUBE_APP_PROBERS")?,
            None => AppProbes::default(),
        };
        let interception = match variable("ISTIO_META_INTERCEPTION_MODE").as_deref() {
            Some("TPROXY") => Interception::Tproxy,
            _ => Interception::Redirect,
        };
        let status_port = match annotated(annotations, STATUS_PORT) {
            Some(port) => {
                port.parse().with_context(|| format!("annotation {STATUS_PORT} {port:?}"))?
            }
            None => ProxyConfig::read(variable("PROXY_CONFIG").as_deref())?.status_port,
        };
        Ok(Self {
            name: needed("POD_NAME")?,
            namespace: needed("POD_NAMESPACE")?,
            address: address.parse().with_context(|| format!("INSTANCE_IP {address:?}"))?,
            interception,
            families,
            status_port: Some(status_port).filter(|port| *port != 0),
            app_probes,
        })
    }
}

/// The supported fields of `PROXY_CONFIG`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProxyConfig {
    #[serde(default = "default_status_port")]
    status_port: u16,
}

impl ProxyConfig {
    fn read(text: Option<&str>) -> Result<Self> {
        let text = text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("{}");
        serde_json::from_str(text).context("PROXY_CONFIG")
    }
}

fn default_status_port() -> u16 {
    15020
}

/// Returns the value of an annotation from a file of the downward API, whose lines are
/// `key="value"`.
fn annotated<'a>(annotations: &'a str, key: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix("=\"")?.strip_suffix('"');
    annotations.lines().find_map(value)
}

const STATUS_PORT: &str = "status.sidecar.istio.io/port";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: &[(&str, &str)], annotations: &str) -> Result<Pod> {
        let always = [("POD_NAME", "web"), ("POD_NAMESPACE", "shop"), ("INSTANCE_IP", "10.0.0.1")];
        let variable = |name: &str| {
            let mut all = always.iter().chain(more);
            all.find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        };
        Pod::read(variable, annotations, Families::Both)
    }

    #[test]
    fn status_port_annotation_overrides_the_mesh() {
        let by_default = read(&[("PROXY_CONFIG", "{}\n")], "").unwrap();
        assert_eq!(by_default.status_port, Some(15020));
        let by_mesh = read(&[("PROXY_CONFIG", r#"{"statusPort":15099}"#)], "a=\"b\"\n").unwrap();
        assert_eq!(by_mesh.status_port, Some(15099));
        let annotations = "a=\"b\"\nstatus.sidecar.istio.io/port=\"15030\"\n";
        assert_eq!(read(&[], annotations).unwrap().status_port, Some(15030));
    }

    #[test]
    fn status_port_zero_disables_the_status_server() {
        let pod = read(&[], "status.sidecar.istio.io/port=\"0\"").unwrap();
        assert_eq!(pod.status_port, None);
    }

    #[test]
    fn invalid_environment_variable_is_named() {
        let error = read(&[("ISTIO_KUBE_APP_PROBERS", "[]")], "").unwrap_err();
        assert!(format!("{error:#}").starts_with("ISTIO_KUBE_APP_PROBERS: "), "{error:#}");
    }
}
