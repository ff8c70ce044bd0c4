//! `ISTIO_KUBE_APP_PROBERS`: the original action for each path that the kubelet requests.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use documents::notice;
use documents::unknown_keys::{Shape, unknown_keys};
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::http_get::{HttpGet, Scheme};
use super::location::escape;
use crate::json_object::object;

/// Actions by path.
#[derive(Debug, Default)]
pub struct ProbeTable(BTreeMap<String, Entry>);

impl ProbeTable {
    /// Parses the value of `ISTIO_KUBE_APP_PROBERS`. The error names the invalid path.
    pub fn parse(text: &str) -> Result<Self, ProbeTableError> {
        let raw =
            object(text).map(Value::Object).and_then(BTreeMap::<String, RawEntry>::deserialize);
        let raw = raw.map_err(ProbeTableError::Json)?;
        let entries = raw.into_iter().map(|(path, raw)| {
            let parsed = check_path(&path).and_then(|()| raw.parse(path.starts_with(HEALTH)));
            match parsed {
                Ok(entry) => Ok((path, entry)),
                Err(source) => Err(ProbeTableError::Entry { path, source }),
            }
        });
        entries.collect::<Result<_, _>>().map(Self)
    }

    /// Returns a warning for each unknown field of `ISTIO_KUBE_APP_PROBERS`.
    pub fn unknown_fields(text: &str) -> Vec<String> {
        let entries = object(text).unwrap_or_default();
        let unknown = entries.iter().flat_map(|(path, entry)| {
            let unknown = unknown_keys(entry, FIELDS).into_iter().map(notice::unknown);
            unknown.map(move |(field, problem)| {
                format!("ISTIO_KUBE_APP_PROBERS: {path}: {field}: {problem}")
            })
        });
        unknown.collect()
    }

    /// Returns the action of a path.
    pub(super) fn get(&self, path: &str) -> Option<&Entry> {
        self.0.get(path)
    }
}

/// Invalid value of `ISTIO_KUBE_APP_PROBERS`.
#[derive(Debug, Error)]
pub enum ProbeTableError {
    /// Value of another form.
    #[error("ISTIO_KUBE_APP_PROBERS: not a JSON object of probes by path")]
    Json(#[source] serde_json::Error),
    /// Invalid entry.
    #[error("ISTIO_KUBE_APP_PROBERS: {path}")]
    Entry {
        /// Path of the entry.
        path: String,
        /// Reason of the rejection.
        source: EntryError,
    },
}

/// Invalid entry of `ISTIO_KUBE_APP_PROBERS`.
#[derive(Debug, Error)]
pub enum EntryError {
    /// Path of another form.
    #[error(
        "expected /app-health/CONTAINER/KIND with a KIND of livez, readyz, startupz, or \
         /app-lifecycle/CONTAINER/KIND with a KIND of prestopz, poststartz"
    )]
    Path,
    /// No action, or several.
    #[error("expected exactly one of httpGet, tcpSocket and grpc")]
    Action,
    /// Invalid port.
    #[error("port {0} is not a port (1–65535)")]
    Port(serde_json::Value),
    /// Unknown scheme.
    #[error("scheme {0:?} is neither HTTP nor HTTPS")]
    Scheme(String),
    /// Host that cannot be sent.
    #[error("host {0:?} is not a host name or address")]
    Host(String),
    /// Path that cannot be sent.
    #[error("httpGet.path {0:?} is not a path of a URL")]
    HttpPath(String),
    /// Invalid name of a header.
    #[error("{0:?} is not a header name")]
    HeaderName(String),
    /// Invalid value of a header.
    #[error("the value of header {0} has characters that headers cannot have")]
    HeaderValue(String),
}

/// One action with its timeout.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) action: Action,
    /// The timeout; `None` for a lifecycle handler, because the kubelet closes its connection at
    /// the end of the handler's time, which ends the request.
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

impl Display for Action {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(get) => write!(formatter, "GET {} at port {}", get.path, get.port),
            Self::Tcp { port, .. } => write!(formatter, "connecting to port {port}"),
            Self::Grpc { port, service } => {
                write!(formatter, "health check of the gRPC service {service:?} at port {port}")
            }
        }
    }
}

fn check_path(path: &str) -> Result<(), EntryError> {
    let parts: Vec<&str> = path.split('/').collect();
    let kinds = match *parts.as_slice() {
        ["", "app-health", container, kind] if !container.is_empty() => Some((PROBES, kind)),
        ["", "app-lifecycle", container, kind] if !container.is_empty() => Some((HANDLERS, kind)),
        _ => None,
    };
    match kinds {
        Some((kinds, kind)) if kinds.contains(&kind) => Ok(()),
        _ => Err(EntryError::Path),
    }
}

/// A prober as the injector writes it, with Kubernetes' field names.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object with httpGet, tcpSocket or grpc")]
struct RawEntry {
    http_get: Option<RawHttpGet>,
    tcp_socket: Option<RawTcpSocket>,
    grpc: Option<RawGrpc>,
    #[serde(default)]
    timeout_seconds: u32,
}

#[derive(Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    expecting = "an object with path, port, host, scheme and httpHeaders"
)]
struct RawHttpGet {
    #[serde(default)]
    path: String,
    #[serde(default)]
    port: serde_json::Value,
    #[serde(default)]
    host: String,
    #[serde(default)]
    scheme: String,
    #[serde(default)]
    http_headers: Vec<RawHeader>,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with name and value")]
struct RawHeader {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with host and port")]
struct RawTcpSocket {
    #[serde(default)]
    host: String,
    #[serde(default)]
    port: serde_json::Value,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with port and service")]
struct RawGrpc {
    #[serde(default)]
    port: serde_json::Value,
    service: Option<String>,
}

impl RawEntry {
    fn parse(self, is_probe: bool) -> Result<Entry, EntryError> {
        let action = match (self.http_get, self.tcp_socket, self.grpc) {
            (Some(get), None, None) => Action::Http(get.parse()?),
            (None, Some(tcp), None) => {
                Action::Tcp { host: parse_host(tcp.host)?, port: parse_port(tcp.port)? }
            }
            (None, None, Some(grpc)) => Action::Grpc {
                port: parse_port(grpc.port)?,
                service: grpc.service.unwrap_or_default(),
            },
            _ => return Err(EntryError::Action),
        };
        // Kubernetes' default is one second.
        let timeout = is_probe.then(|| Duration::from_secs(self.timeout_seconds.max(1).into()));
        Ok(Entry { action, timeout })
    }
}

impl RawHttpGet {
    fn parse(self) -> Result<HttpGet, EntryError> {
        let scheme = match &*self.scheme {
            "" | "HTTP" | "http" => Scheme::Http,
            "HTTPS" | "https" => Scheme::Https,
            _ => return Err(EntryError::Scheme(self.scheme)),
        };
        let headers = self.http_headers.into_iter().map(|header| {
            let value = HeaderValue::try_from(&header.value);
            match HeaderName::try_from(&header.name) {
                Ok(name) => match value {
                    Ok(value) => Ok((name, value)),
                    Err(_) => Err(EntryError::HeaderValue(header.name)),
                },
                Err(_) => Err(EntryError::HeaderName(header.name)),
            }
        });
        Ok(HttpGet {
            scheme,
            host: parse_host(self.host)?,
            port: parse_port(self.port)?,
            path: parse_path(self.path)?,
            headers: headers.collect::<Result<_, _>>()?,
        })
    }
}

/// Parses a path as the kubelet does: characters that a URL cannot have are escaped.
fn parse_path(path: String) -> Result<PathAndQuery, EntryError> {
    // The fragment is never sent.
    let sent = escape(path.split('#').next().unwrap_or_default().as_bytes());
    let slash = if path.starts_with('/') { "" } else { "/" };
    PathAndQuery::try_from(format!("{slash}{sent}")).map_err(|_| EntryError::HttpPath(path))
}

fn parse_host(host: String) -> Result<Option<String>, EntryError> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]%".contains(&byte);
    match host.is_empty() {
        true => Ok(None),
        false if host.bytes().all(valid) => Ok(Some(host)),
        false => Err(EntryError::Host(host)),
    }
}

fn parse_port(port: serde_json::Value) -> Result<u16, EntryError> {
    let number = port.as_u64().and_then(|number| u16::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(EntryError::Port(port))
}

const FIELDS: Shape = Shape::Keys(
    "timeoutSeconds",
    &[
        (
            "httpGet",
            Shape::Keys(
                "path port host scheme",
                &[("httpHeaders", Shape::List(&Shape::Keys("name value", &[])))],
            ),
        ),
        ("tcpSocket", Shape::Keys("host port", &[])),
        ("grpc", Shape::Keys("port service", &[])),
    ],
);
const HEALTH: &str = "/app-health/";
const PROBES: &[&str] = &["livez", "readyz", "startupz"];
const HANDLERS: &[&str] = &["prestopz", "poststartz"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str, probe: &str) -> Result<Entry, ProbeTableError> {
        let mut probes = ProbeTable::parse(&format!("{{{path:?}:{probe}}}"))?;
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
            path: PathAndQuery::from_static("/up"),
            headers: vec![(HeaderName::from_static("x-probe"), HeaderValue::from_static("yes"))],
        };
        let expected = Entry { action: Action::Http(get), timeout: Some(Duration::from_secs(3)) };
        assert_eq!(probe.unwrap(), expected);
    }

    #[test]
    fn grpc_probe_without_service_checks_the_whole_server() {
        let probe = parse("/app-health/web/livez", r#"{"grpc":{"port":9000,"service":null}}"#);
        let action = Action::Grpc { port: 9000, service: String::new() };
        let expected = Entry { action, timeout: Some(Duration::from_secs(1)) };
        assert_eq!(probe.unwrap(), expected);
    }

    #[test]
    fn null_is_an_absent_field() {
        let get = |rest: &str| {
            let text = format!(r#"{{"httpGet":{{"port":8080{rest}}},"tcpSocket":null}}"#);
            parse("/app-health/web/livez", &text).unwrap()
        };
        let nulls = r#","path":null,"host":null,"scheme":null,"httpHeaders":null"#;
        assert_eq!(get(nulls), get(""));
        assert_eq!(ProbeTable::parse("null").unwrap().0, BTreeMap::new());
    }

    #[test]
    fn unknown_fields_are_told() {
        let text = r#"{"/app-health/a/livez":{"httpGet":{"port":1,"pat":"/"},"timeoutSecond":1}}"#;
        assert_eq!(
            ProbeTable::unknown_fields(text),
            [
                "ISTIO_KUBE_APP_PROBERS: /app-health/a/livez: httpGet.pat: unknown key; did you mean \
             path?",
                "ISTIO_KUBE_APP_PROBERS: /app-health/a/livez: timeoutSecond: unknown key; did you mean \
             timeoutSeconds?",
            ]
        );
    }

    #[test]
    fn lifecycle_handler_has_no_timeout() {
        let probe = parse("/app-lifecycle/web/prestopz", r#"{"tcpSocket":{"port":9000}}"#);
        assert_eq!(probe.unwrap().timeout, None);
    }

    #[test]
    fn path_is_escaped_as_by_the_kubelet() {
        for (given, sent) in [
            ("", "/"),
            ("/up?x=a b", "/up?x=a%20b"),
            ("/ü/%2F", "/%C3%BC/%2F"),
            ("/{a}#top", "/%7Ba%7D"),
        ] {
            assert_eq!(parse_path(given.to_owned()).unwrap(), sent);
        }
    }

    #[test]
    fn invalid_entry_is_named_by_its_path() {
        let (livez, tcp) = ("/app-health/web/livez", r#"{"tcpSocket":{"port":1}}"#);
        for (path, probe, reason) in [
            ("/app-health/web/well", tcp, "livez, readyz"),
            ("/app-health/web/prestopz", tcp, "livez, readyz"),
            ("/app-lifecycle/web/livez", tcp, "prestopz, poststartz"),
            ("/app-health//livez", tcp, "expected /app-health/CONTAINER/KIND"),
            ("/app-health/a/b/livez", tcp, "expected /app-health/CONTAINER/KIND"),
            ("app-health/web/livez", tcp, "expected /app-health/CONTAINER/KIND"),
            ("http://other/app-health/web/livez", tcp, "expected /app-health/CONTAINER/KIND"),
            (livez, "{}", "exactly one of"),
            (livez, r#"{"tcpSocket":{"port":1},"grpc":{"port":1}}"#, "exactly one of"),
            (livez, r#"{"httpGet":{"port":1,"scheme":"FTP"}}"#, "\"FTP\""),
            (livez, r#"{"httpGet":{"port":1,"host":"a/b"}}"#, "host \"a/b\""),
            (livez, r#"{"httpGet":{"port":"http"}}"#, "port \"http\""),
            (livez, r#"{"httpGet":{"path":"/"}}"#, "port null"),
            (livez, r#"{"tcpSocket":{"port":0}}"#, "port 0"),
            (livez, r#"{"grpc":{"port":65536}}"#, "port 65536"),
            (livez, r#"{"httpGet":{"port":1,"httpHeaders":[{"name":"a b"}]}}"#, "\"a b\""),
            (
                livez,
                r#"{"httpGet":{"port":1,"httpHeaders":[{"name":"x","value":"\n"}]}}"#,
                "header x",
            ),
        ] {
            let error = chain(parse(path, probe).unwrap_err());
            let expected = format!("ISTIO_KUBE_APP_PROBERS: {path}: ");
            let reasons = error.strip_prefix(&expected).unwrap_or_else(|| panic!("{error}"));
            assert_eq!(reasons.matches(reason).count(), 1, "{error}");
        }
    }

    #[test]
    fn value_of_another_form_names_the_variable() {
        for text in ["", "[]", "1", r#"{"/app-health/web/livez":[]}"#, "{\"a\":{}}x"] {
            let error = chain(ProbeTable::parse(text).unwrap_err());
            assert!(error.starts_with("ISTIO_KUBE_APP_PROBERS: "), "{error}");
            assert_eq!(error.matches("ISTIO_KUBE_APP_PROBERS").count(), 1, "{error}");
            assert!(!error.contains("Raw"), "{error}");
        }
    }

    /// Returns the error and its sources, as the program prints them.
    fn chain(error: ProbeTableError) -> String {
        format!("{:#}", anyhow::Error::new(error))
    }
}
