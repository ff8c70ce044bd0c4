//! A service of the graph, with the callers that it accepts.

use std::collections::BTreeMap;

use serde::Serialize;

/// A service, and who may call it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceNode {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Namespaces whose sidecars know it; `None` for all. Others can call it without a route.
    pub(super) exported_to: Option<Vec<String>>,
    pub(super) ports: Vec<PortNode>,
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PortNode {
    pub(super) port: u64,
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) callers: Callers,
    /// Endpoints by the name of their Deployment or other owner; by address without one.
    pub(super) workloads: BTreeMap<String, usize>,
}

/// Callers that the endpoints of a port accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Callers {
    /// No endpoint is there.
    NoEndpoint,
    /// Callers with a sidecar, by mutual TLS (STRICT).
    Sidecars,
    /// All: callers with a sidecar by mutual TLS, others in plain text (PERMISSIVE).
    All,
    /// All, in plain text: no sidecar, or DISABLE.
    Plaintext,
    /// The endpoints differ.
    Mixed,
}

impl ServiceNode {
    /// Returns the namespaces whose sidecars know it, in words; `None` for all.
    pub(super) fn export(&self) -> Option<String> {
        let namespaces = self.exported_to.as_ref()?.join(", ");
        let namespaces = if namespaces.is_empty() { "none" } else { &namespaces };
        Some(format!("exported to {namespaces}"))
    }

    /// Returns the callers of a port in words.
    pub(super) fn callers(&self, port: &PortNode) -> String {
        let who = port.callers.who();
        self.export().map_or_else(|| who.to_owned(), |export| format!("{who}, {export}"))
    }
}

impl PortNode {
    /// Returns port and protocol: `80 HTTP`.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.port, self.protocol)
    }

    /// Returns the endpoints in words: `web (2), 10.0.0.1`.
    pub(super) fn workload_words(&self) -> String {
        let words = self.workloads.iter().map(|(name, count)| match count {
            1 => name.clone(),
            count => format!("{name} ({count})"),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

impl Callers {
    /// Returns the callers of one endpoint.
    pub(super) fn of_endpoint(takes_mutual_tls: bool, mode: &str) -> Self {
        match mode {
            _ if !takes_mutual_tls => Self::Plaintext,
            "Strict" => Self::Sidecars,
            "Disable" => Self::Plaintext,
            _ => Self::All,
        }
    }

    /// Returns the callers of two endpoints.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NoEndpoint, one) | (one, Self::NoEndpoint) => one,
            (one, other) if one == other => one,
            _ => Self::Mixed,
        }
    }

    /// Returns the callers in words.
    pub(super) fn who(self) -> &'static str {
        match self {
            Self::Sidecars => "pods with a sidecar",
            _ => "all pods",
        }
    }

    /// Returns the protection in words.
    pub(super) fn protection(self) -> &'static str {
        match self {
            Self::NoEndpoint => "no endpoint",
            Self::Sidecars => "mutual TLS",
            Self::All => "mutual TLS or plain text",
            Self::Plaintext => "plain text",
            Self::Mixed => "differs by endpoint",
        }
    }
}
