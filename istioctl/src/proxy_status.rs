//! `istioctl proxy-status`: the proxies that are connected, and whether they use what was sent.

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};

use crate::cluster::ClusterClient;
use crate::control_plane::{DebugPages, Page};
use crate::output::Form;
use crate::pod_target::PodTarget;
use crate::table::table;
use crate::{Failure, Streams, output};

/// Show the proxies that are connected to the control plane, and whether they are up to date
///
/// SYNCED: the proxy has accepted the newest resources. STALE: it has not answered yet. REJECTED: it
/// has refused the newest ones and uses earlier ones. NOT SENT: it has not asked for them. CLOSED: it
/// takes no inbound connection, since an AuthorizationPolicy selects it, whose rules are not enforced.
#[expect(clippy::doc_markdown, reason = "it is shown as help, where backticks only disturb")]
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ProxyStatus {
    /// A pod, as NAME.NAMESPACE, or NAME with -n; deployment/NAME is a pod of it that runs [default:
    /// all]
    #[arg(value_name = "[TYPE/]NAME[.NAMESPACE]", value_parser = PodTarget::parse)]
    pod: Option<PodTarget>,
    /// Show the proxies of all namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    pages: DebugPages,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: Form,
}

impl ProxyStatus {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let (pod, pages) = self.pages.run(cluster_client, async |source| {
            let pod = match &self.pod {
                Some(pod) => Some(source.proxy(pod, cluster_client.namespace).await?.to_string()),
                None => None,
            };
            Ok((pod, source.ask("/debug/syncz").await?))
        })?;
        let (mut proxies, mut errors) = (Vec::new(), Vec::new());
        for Page { pod, content } in pages {
            match content {
                Ok(content) => proxies.extend(connected(&pod, &content)),
                Err(error) => errors.push(error),
            }
        }
        proxies.retain(|proxy| is_selected(&proxy.name, pod.as_deref(), cluster_client.namespace));
        proxies.sort_by(|one, other| one.name.cmp(&other.name));
        let text = match self.output {
            Form::Table => text(&proxies),
            form => {
                let objects = proxies.iter().map(object).collect();
                form.render(&objects).map_err(Failure::from_error)?
            }
        };
        output::write(streams.output, &text).map_err(Failure::from_error)?;
        if let Some(pod) = pod.filter(|_| proxies.is_empty()) {
            errors.push(anyhow!("{pod} is not connected to the control plane"));
        }
        if errors.is_empty() { Ok(()) } else { Err(Failure::Errors(errors)) }
    }
}

/// True for the proxy of the pod, or without one, for each one of the namespace; an empty namespace
/// stands for all.
fn is_selected(proxy: &str, pod: Option<&str>, namespace: &str) -> bool {
    match pod {
        Some(pod) => proxy == pod,
        None if namespace.is_empty() => true,
        None => proxy.strip_suffix(namespace).is_some_and(|pod| pod.ends_with('.')),
    }
}

/// A connected proxy.
#[derive(Debug, PartialEq, Eq)]
struct Proxy {
    /// `POD.NAMESPACE`.
    name: String,
    /// State of each type of [`TYPES`].
    states: Vec<State>,
    /// Policy by which it takes no connection; empty if it takes them.
    closed_by: String,
    /// Pod of the control plane.
    control_plane: String,
}

/// A proxy's state of one type of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotSent,
    Synced,
    Stale,
    Rejected,
}

impl State {
    fn of(line: &Value, key: &str) -> Self {
        let field = |suffix: &str| &line[format!("{key}_{suffix}")];
        let text = |suffix| field(suffix).as_str().unwrap_or_default();
        match (text("sent"), text("acked")) {
            ("", _) => Self::NotSent,
            (sent, accepted) if sent == accepted => Self::Synced,
            _ if field("rejected").as_u64().is_some_and(|count| count > 0) => Self::Rejected,
            _ => Self::Stale,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::NotSent => "NOT SENT",
            Self::Synced => "SYNCED",
            Self::Stale => "STALE",
            Self::Rejected => "REJECTED",
        }
    }
}

/// Proxies of a page `/debug/syncz`.
fn connected(control_plane: &str, page: &Value) -> Vec<Proxy> {
    let lines = page.as_array().into_iter().flatten();
    let proxies = lines.map(|line| Proxy {
        name: line["proxy"].as_str().unwrap_or_default().to_owned(),
        states: TYPES.iter().map(|(_, key)| State::of(line, key)).collect(),
        closed_by: line["closed_by"].as_str().unwrap_or_default().to_owned(),
        control_plane: control_plane.to_owned(),
    });
    proxies.collect()
}

/// Table of proxies. It has a column about closed ones only if there is one.
fn text(proxies: &[Proxy]) -> String {
    let any_is_closed = proxies.iter().any(|proxy| !proxy.closed_by.is_empty());
    let row = |proxy: &Proxy| {
        let states = proxy.states.iter().map(|state| state.word().to_owned());
        let closed = any_is_closed.then(|| match proxy.closed_by.as_str() {
            "" => String::new(),
            policy => format!("CLOSED by {policy}, which is not enforced"),
        });
        let mut row = vec![proxy.name.clone()];
        row.extend(states.chain([proxy.control_plane.clone()]).chain(closed));
        row
    };
    let header = [HEADER, if any_is_closed { &["INBOUND"] } else { &[] }].concat();
    table(&header, &proxies.iter().map(row).collect::<Vec<_>>())
}

fn object(proxy: &Proxy) -> Value {
    let mut object = json!({"name": proxy.name, "controlPlane": proxy.control_plane});
    for ((name, _), state) in TYPES.iter().zip(&proxy.states) {
        object[name.to_lowercase()] = state.word().into();
    }
    if !proxy.closed_by.is_empty() {
        object["closedBy"] = proxy.closed_by.as_str().into();
    }
    object
}

const EXAMPLES: &str = "\
Examples:
  istioctl proxy-status
  istioctl proxy-status web-1.shop
  istioctl proxy-status --debug-address 127.0.0.1:8080";

const HEADER: &[&str] = &["NAME", "CDS", "LDS", "EDS", "RDS", "CONTROL PLANE"];

/// Types of resources, and the start of their keys in `/debug/syncz`.
const TYPES: &[(&str, &str)] =
    &[("CDS", "cluster"), ("LDS", "listener"), ("EDS", "endpoint"), ("RDS", "route")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_tells_sent_from_accepted() {
        let line = json!({
            "proxy": "web-1.shop", "closed_by": "AuthorizationPolicy shop/deny",
            "cluster_sent": "a", "cluster_acked": "a", "cluster_rejected": 0,
            "listener_sent": "b", "listener_acked": "a", "listener_rejected": 0,
            "endpoint_sent": "b", "endpoint_acked": "a", "endpoint_rejected": 1,
        });
        let proxies = connected("pilot-1", &json!([line]));
        let states = vec![State::Synced, State::Stale, State::Rejected, State::NotSent];
        let expected = Proxy {
            name: "web-1.shop".to_owned(),
            states,
            closed_by: "AuthorizationPolicy shop/deny".to_owned(),
            control_plane: "pilot-1".to_owned(),
        };
        let schema = include_str!("../../docs/schemas/proxy-status.schema.json");
        let schema = serde_json::from_str(schema).unwrap();
        let objects = proxies.iter().map(object).collect::<Value>();
        assert_eq!(reference_pages::schema::validate(&objects, &schema), Ok(()));
        assert_eq!(proxies, [expected]);
    }

    #[test]
    fn closed_proxies_have_a_column_with_the_policy() {
        let closed = json!({"proxy": "a.shop", "closed_by": "AuthorizationPolicy shop/deny"});
        let page = json!([closed, {"proxy": "b.shop"}]);
        let shown = text(&connected("pilot-1", &page));
        let ends: Vec<_> = shown.lines().map(|line| line.rsplit("  ").next().unwrap()).collect();
        let policy = "CLOSED by AuthorizationPolicy shop/deny, which is not enforced";
        assert_eq!(ends, ["INBOUND", policy, "-"], "{shown}");
        assert!(!text(&connected("pilot-1", &json!([{"proxy": "b.shop"}]))).contains("INBOUND"));
    }

    #[test]
    fn proxies_are_selected_by_pod_and_namespace() {
        let proxies = connected("pilot-1", &json!([{"proxy": "a.shop"}, {"proxy": "b.backshop"}]));
        let selected = |pod, namespace| -> Vec<&str> {
            let names = proxies.iter().map(|proxy| proxy.name.as_str());
            names.filter(|name| is_selected(name, pod, namespace)).collect()
        };
        assert_eq!(selected(None, ""), ["a.shop", "b.backshop"]);
        assert_eq!(selected(None, "shop"), ["a.shop"]);
        assert_eq!(selected(Some("a.shop"), "shop"), ["a.shop"]);
        assert!(selected(Some("b.shop"), "shop").is_empty());
    }
}
