//! `ISTIO_KUBE_APP_PROBERS`: the original action for each path that the kubelet requests.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;

use super::http_get::{HttpGet, Scheme};

/// The actions by path.
#[derive(Debug, Default)]
pub(crate) struct AppProbes(BTreeMap<String, AppProbe>);

impl AppProbes {
    /// Parses the variable's value. The error names the invalid path.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let written: BTreeMap<String, Written> =
            serde_json::from_str(text).context("it is not a map from paths to probes")?;
        let probes = written.into_iter().map(|(path, written)| {
            let read = || {
                check_path(&path)?;
                written.read(path.starts_with(HEALTH))
            };
            let probe = read().with_context(|| path.clone())?;
            Ok((path, probe))
        });
        probes.collect::<Result<_>>().map(Self)
    }

    /// Returns the action of a path.
    pub(super) fn get(&self, path: &str) -> Option<&AppProbe> {
        self.0.get(path)
    }
}

/// One action with its timeout.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AppProbe {
    pub(super) action: Action,
    /// The timeout; `None` for a lifecycle handler, because the kubelet closes its connection at
    /// the handler's timeout.
    pub(super) timeout: Option<Duration>,
}

/// A Kubernetes handler, with its ports resolved to numbers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Http(HttpGet),
    Tcp {
        host: Option<String>,
        port: u16,
    },
    Grpc {
        port: u16,
        /// The service; empty for the server as a whole.
        service: String,
    },
}

fn check_path(path: &str) -> Result<()> {
    let parts: Vec<&str> = path.strip_prefix('/').unwrap_or_default().split('/').collect();
    let known = match *parts.as_slice() {
        ["app-health" | "app-lifecycle", container, kind] => {
            !container.is_empty() && KINDS.contains(&kind)
        }
        _ => false,
    };
    ensure!(
        known,
        "expected /app-health/CONTAINER/KIND or /app-lifecycle/CONTAINER/KIND, with a KIND of {}",
        KINDS.join(", ")
    );
    Ok(())
}

/// A prober as the injector writes it, with Kubernetes' field names.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    http_get: Option<WrittenHttpGet>,
    tcp_socket: Option<WrittenTcpSocket>,
    grpc: Option<WrittenGrpc>,
    #[serde(default)]
    timeout_seconds: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenHttpGet {
    #[serde(default)]
    path: String,
    port: u16,
    #[serde(default)]
    host: String,
    #[serde(default)]
    scheme: String,
    #[serde(default)]
    http_headers: Vec<WrittenHeader>,
}

#[derive(Debug, Deserialize)]
struct WrittenHeader {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Debug, Deserialize)]
struct WrittenTcpSocket {
    #[serde(default)]
    host: String,
    port: u16,
}

#[derive(Debug, Deserialize)]
struct WrittenGrpc {
    port: u16,
    service: Option<String>,
}

impl Written {
    fn read(self, is_probe: bool) -> Result<AppProbe> {
        let action = match (self.http_get, self.tcp_socket, self.grpc) {
            (Some(get), None, None) => Action::Http(get.read()?),
            (None, Some(tcp), None) => Action::Tcp { host: not_empty(tcp.host), port: tcp.port },
            (None, None, Some(grpc)) => {
                Action::Grpc { port: grpc.port, service: grpc.service.unwrap_or_default() }
            }
            _ => bail!("expected exactly one of httpGet, tcpSocket and grpc"),
        };
        // Kubernetes' default is one second.
        let timeout = is_probe.then(|| Duration::from_secs(self.timeout_seconds.max(1).into()));
        Ok(AppProbe { action, timeout })
    }
}

impl WrittenHttpGet {
    fn read(self) -> Result<HttpGet> {
        let scheme = match &*self.scheme {
            "" | "HTTP" | "http" => Scheme::Http,
            "HTTPS" | "https" => Scheme::Https,
            other => bail!("scheme {other:?} is neither HTTP nor HTTPS"),
        };
        let headers = self.http_headers.into_iter().map(|header| {
            let name = HeaderName::try_from(&header.name)
                .with_context(|| format!("{:?} is no name of a header", header.name))?;
            let value = HeaderValue::try_from(&header.value)
                .with_context(|| format!("the value of header {name} cannot be sent"))?;
            Ok((name, value))
        });
        let slash = if self.path.starts_with('/') { "" } else { "/" };
        Ok(HttpGet {
            scheme,
            host: not_empty(self.host),
            port: self.port,
            path: [slash, &self.path].concat(),
            headers: headers.collect::<Result<_>>()?,
        })
    }
}

fn not_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

const HEALTH: &str = "/app-health/";
const KINDS: [&str; 5] = ["livez", "readyz", "startupz", "prestopz", "poststartz"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str, probe: &str) -> Result<AppProbe> {
        let mut probes = AppProbes::parse(&format!("{{{path:?}:{probe}}}"))?;
        Ok(probes.0.remove(path).unwrap())
    }

    #[test]
    fn http_probe_keeps_its_kubernetes_fields() {
        let probe = parse(
            "/app-health/web/readyz",
            r#"{"httpGet":{"path":"up","port":8443,"host":"127.0.0.1","scheme":"HTTPS",
                "httpHeaders":[{"name":"X-Probe","value":"yes"}]},"timeoutSeconds":3}"#,
        );
        let get = HttpGet {
            scheme: Scheme::Https,
            host: Some("127.0.0.1".to_owned()),
            port: 8443,
            path: "/up".to_owned(),
            headers: vec![(HeaderName::from_static("x-probe"), HeaderValue::from_static("yes"))],
        };
        let expected =
            AppProbe { action: Action::Http(get), timeout: Some(Duration::from_secs(3)) };
        assert_eq!(probe.unwrap(), expected);
    }

    #[test]
    fn grpc_probe_without_service_checks_the_whole_server() {
        let probe = parse("/app-health/web/livez", r#"{"grpc":{"port":9000,"service":null}}"#);
        let action = Action::Grpc { port: 9000, service: String::new() };
        let expected = AppProbe { action, timeout: Some(Duration::from_secs(1)) };
        assert_eq!(probe.unwrap(), expected);
    }

    #[test]
    fn lifecycle_handler_has_the_default_timeout() {
        let probe = parse("/app-lifecycle/web/prestopz", r#"{"tcpSocket":{"port":9000}}"#);
        assert_eq!(probe.unwrap().timeout, None);
    }

    #[test]
    fn unsupported_probe_is_named_by_its_path() {
        for (path, probe, reason) in [
            ("/app-health/web/well", r#"{"tcpSocket":{"port":1}}"#, "livez, readyz"),
            ("/app-health//livez", r#"{"tcpSocket":{"port":1}}"#, "CONTAINER"),
            ("/app-health/web/livez", "{}", "exactly one of"),
            (
                "/app-health/web/livez",
                r#"{"tcpSocket":{"port":1},"grpc":{"port":1}}"#,
                "exactly one of",
            ),
            ("/app-health/web/livez", r#"{"httpGet":{"port":1,"scheme":"FTP"}}"#, "\"FTP\""),
        ] {
            let error = format!("{:#}", parse(path, probe).unwrap_err());
            assert!(error.contains(path) && error.contains(reason), "{error}");
        }
    }
}
