//! Probes of the application: the agent sends them on behalf of the kubelet.

use std::collections::BTreeMap;
use std::net::IpAddr;

use reason::{Reason, words};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::original_handler::put_back;
use crate::inject::computed_env::{PROBERS, put_env};
use crate::json::change::{Draft, PathStep};
use crate::json::short;
use crate::kubernetes::pod::{
    CONTAINERS, INIT_CONTAINERS, PROXY, annotation, find_env, find_proxy, in_container, proxy_env,
};
use crate::settings::Settings;
use crate::settings::annotation_kind::switch;
use crate::settings::annotations::key;

/// Redirects the application's HTTP, TCP and gRPC probes, and its HTTP and TCP lifecycle handlers,
/// to the agent, and passes their original targets to the agent.
///
/// Without a status port the agent cannot answer, and the probes stay. A handler with a `host` also
/// stays: the kubelet calls that host, not the pod, so no capture is in the way. So does a probe
/// with an unknown port name, with a warning.
pub fn rewrite(draft: &mut Draft, settings: &Settings, reinjected: bool) -> Vec<Reason> {
    let mut warnings = Vec::new();
    let rewrite = annotation(draft.value(), key::REWRITE_APP_PROBES).and_then(switch);
    let default = settings.values.sidecar_injector_webhook.rewrite_app_http_probe.on();
    if find_proxy(draft.value()).is_none() || !rewrite.unwrap_or(default) {
        return warnings;
    }
    let mesh_port = settings.mesh.default_config.status_port();
    let given = annotation(draft.value(), key::STATUS_PORT).map(|port| port.trim().parse());
    let Some(port) = given.map_or(Some(mesh_port), Result::ok).filter(|port| *port != 0) else {
        return warnings;
    };
    let half_rewritten = earlier_probers(draft.value(), reinjected);
    let mut probers = BTreeMap::new();
    for list in [INIT_CONTAINERS, CONTAINERS] {
        let count = draft.value()["spec"][list].as_array().map_or(0, Vec::len);
        for index in 0..count {
            let own = &draft.value()["spec"][list][index];
            let Some(name) = own["name"].as_str().filter(|name| *name != PROXY) else {
                continue;
            };
            let mut rewritten = Vec::new();
            let mut restored = Vec::new();
            for kind in &HANDLERS {
                let Some(handler) = Handler::from_container(own, kind) else {
                    continue;
                };
                let path = kind.agent_path(name);
                if let Some(host) = handler.host() {
                    let prober = half_rewritten.get(&path).filter(|_| handler.asks(&path));
                    restored.extend(prober.map(|prober| (kind, prober.clone())));
                    warnings.extend(is_loopback(host).then(|| handler.node_warning(kind, host)));
                    continue;
                }
                match handler.prober(&path, port, mesh_port) {
                    Ok(prober) => {
                        let lost = prober.is_none() && !handler.asks(&path);
                        warnings.extend(lost.then(|| handler.agent_port_warning(mesh_port)));
                        probers.extend(prober.map(|prober| (path.clone(), prober)));
                        rewritten.push((kind, handler.action, path));
                    }
                    Err(warning) => warnings.push(warning),
                }
            }
            let place = |kind: &'static HandlerKind| -> Vec<_> {
                let steps = kind.path.iter().map(|key| PathStep::Key(key));
                in_container(list, index, []).into_iter().chain(steps).collect()
            };
            for (kind, action, path) in rewritten {
                ask_agent(draft, &place(kind), action, &path, port);
            }
            for (kind, prober) in restored {
                restore(draft, &place(kind), &prober);
            }
        }
    }
    tell_agent(draft, probers, reinjected);
    warnings
}

/// Redirects a handler to the agent. The user's other fields of the request stay.
fn ask_agent(draft: &mut Draft, handler: &[PathStep<'_>], action: &str, path: &str, port: u16) {
    let of_http = |key| ["httpGet".into(), PathStep::Key(key)];
    draft.within(handler, |handler| {
        if action != "httpGet" {
            handler.remove(&[], action);
        }
        handler.set(&of_http("path"), path.into());
        handler.set(&of_http("port"), port.into());
        if handler.at(&of_http("scheme")).is_some_and(|scheme| scheme == "HTTPS") {
            handler.set(&of_http("scheme"), "HTTP".into());
        }
    });
}

/// Restores a handler with a `host` that an earlier injection redirected to the agent's path and
/// port of that host.
fn restore(draft: &mut Draft, handler: &[PathStep<'_>], prober: &Value) {
    let Some(mut original) = draft.at(handler).and_then(Value::as_object).cloned() else { return };
    if put_back(&mut original, prober).is_some() {
        draft.set(handler, Value::Object(original));
    }
}

/// Returns the probers of a previous injection, by the agent's path.
fn earlier_probers(pod: &Value, reinjected: bool) -> Map<String, Value> {
    let text = proxy_env(pod, PROBERS).filter(|_| reinjected);
    text.and_then(short::parse).unwrap_or_default()
}

/// Passes the probers to the agent. Those of a previous injection take precedence.
fn tell_agent(draft: &mut Draft, mut probers: BTreeMap<String, String>, reinjected: bool) {
    let pod = draft.value();
    let Some((list, index)) = find_proxy(pod) else { return };
    if probers.is_empty() {
        return;
    }
    if let Some(place) = find_env(pod, list, index, PROBERS).filter(|_| reinjected) {
        let earlier = pod["spec"][list][index]["env"][place]["value"].as_str().unwrap_or_default();
        let earlier: BTreeMap<String, Box<RawValue>> = short::parse(earlier).unwrap_or_default();
        probers.extend(earlier.into_iter().map(|(path, prober)| (path, prober.get().to_owned())));
    }
    put_env(draft, PROBERS, &to_json(&probers));
}

fn to_json(probers: &BTreeMap<String, String>) -> String {
    let mut text = String::from("{");
    for (path, prober) in probers {
        let comma = if text.len() > 1 { "," } else { "" };
        text.extend([comma, &json(path), ":", prober]);
    }
    text + "}"
}

fn json(value: impl Serialize) -> String {
    serde_json::to_string(&value).unwrap_or_default()
}

/// Path of a handler in a container, and its name in the agent's URL.
pub(crate) struct HandlerKind {
    pub(crate) path: &'static [&'static str],
    agent: (&'static str, &'static str),
}

impl HandlerKind {
    pub(crate) fn agent_path(&self, container: &str) -> String {
        let (kind, word) = self.agent;
        ["/", kind, "/", container, "/", word].concat()
    }

    fn is_probe(&self) -> bool {
        self.path.len() == 1
    }
}

/// Handlers that the agent can call on behalf of the kubelet.
pub(crate) const HANDLERS: [HandlerKind; 5] = [
    HandlerKind { path: &["readinessProbe"], agent: ("app-health", "readyz") },
    HandlerKind { path: &["livenessProbe"], agent: ("app-health", "livez") },
    HandlerKind { path: &["startupProbe"], agent: ("app-health", "startupz") },
    HandlerKind { path: &["lifecycle", "preStop"], agent: ("app-lifecycle", "prestopz") },
    HandlerKind { path: &["lifecycle", "postStart"], agent: ("app-lifecycle", "poststartz") },
];

/// A probe or lifecycle handler that uses the network.
struct Handler<'a> {
    container: &'a Value,
    given: &'a Value,
    action: &'static str,
    probe: bool,
}

impl<'a> Handler<'a> {
    fn from_container(container: &'a Value, kind: &HandlerKind) -> Option<Self> {
        let handler = kind.path.iter().try_fold(container, |value, key| value.get(*key))?;
        let actions = if kind.is_probe() { &ACTIONS[..] } else { &ACTIONS[..2] };
        let action =
            actions.iter().find(|action| handler.get(**action).is_some_and(Value::is_object))?;
        Some(Self { container, given: handler, action, probe: kind.is_probe() })
    }

    /// Returns the agent's prober as JSON in the order of Istio's fields. `None` if the probe
    /// already goes to the agent.
    fn prober(&self, path: &str, port: u16, mesh_port: u16) -> Result<Option<String>, Reason> {
        let action = &self.given[self.action];
        let given = &action["port"];
        // The agent answers HTTP: Istio does not check the port of a gRPC probe.
        let asks_agent = *given == mesh_port && self.action != "grpc";
        if asks_agent || (*given == port && self.asks(path)) {
            return Ok(None);
        }
        let number = self.resolve(given)?;
        let fields: &[&str] = match self.action {
            "httpGet" => &["path", "port", "scheme", "httpHeaders"],
            "tcpSocket" => &["port"],
            _ => &["port", "service"],
        };
        let mut prober = String::with_capacity(PROBER_BYTES);
        prober.extend(["{\"", self.action, "\":{"]);
        let mut comma = "";
        for field in fields {
            let value = match *field {
                "port" => number.to_string(),
                // Istio writes the service of a gRPC probe even if it is absent.
                "service" => json(&action["service"]),
                field => match action.get(field).filter(|value| !is_empty(value)) {
                    Some(value) => json(value),
                    None => continue,
                },
            };
            prober.extend([comma, "\"", field, "\":", &value]);
            comma = ",";
        }
        prober.push('}');
        let timeout = self.given["timeoutSeconds"].as_u64();
        if let Some(timeout) = timeout.filter(|seconds| *seconds > 0 && self.probe) {
            prober.extend([",\"timeoutSeconds\":", &timeout.to_string()]);
        }
        prober.push('}');
        Ok(Some(prober))
    }

    /// Returns the host that the kubelet calls instead of the pod.
    fn host(&self) -> Option<&'a str> {
        self.given[self.action]["host"].as_str().filter(|host| !host.is_empty())
    }

    /// Returns a warning about a handler that calls the node itself.
    fn node_warning(&self, kind: &HandlerKind, host: &str) -> Reason {
        let (field, container) = (kind.path.join("."), self.container());
        let message = format!(
            "{field} of container {container} calls host {host:?}, which is the node for the \
             kubelet; it is not changed"
        );
        Reason::new(words::PROBE_OF_THE_NODE, message)
    }

    /// True if the probe already has this path of the agent.
    fn asks(&self, path: &str) -> bool {
        self.given[self.action]["path"] == *path
    }

    /// Returns a warning about a probe of the agent's port. Istio treats every such probe as
    /// rewritten.
    fn agent_port_warning(&self, port: u16) -> Reason {
        let container = self.container();
        let message = format!(
            "a probe of container {container} uses port {port} of the agent, which does not answer \
             probes of the application"
        );
        Reason::new(words::PROBE_OF_THE_AGENT, message)
    }

    fn resolve(&self, port: &Value) -> Result<u64, Reason> {
        let valid = |port: &u64| (1..=65535).contains(port);
        let number = match port {
            Value::String(name) => name.parse().ok().or_else(|| self.named(name)),
            port => port.as_u64(),
        };
        // The API server or the kubelet reports an invalid port.
        number.filter(valid).ok_or_else(|| {
            let container = self.container();
            let problem = match port {
                Value::String(name) => {
                    format!("names port {name:?}, which the container does not have")
                }
                // The digits of a float are lost.
                port if port.is_f64() => "has a port that is not in 1-65535".to_owned(),
                port => format!("has port {port}, which is not in 1-65535"),
            };
            let message =
                format!("a probe of container {container} {problem}; the probe is not changed");
            Reason::new(words::PROBE_PORT_UNKNOWN, message)
        })
    }

    fn named(&self, name: &str) -> Option<u64> {
        let ports = self.container["ports"].as_array().into_iter().flatten();
        let mut named = ports.filter(|port| port["name"] == name);
        named.find_map(|port| port["containerPort"].as_u64())
    }

    fn container(&self) -> &str {
        self.container["name"].as_str().unwrap_or_default()
    }
}

/// True if the kubelet takes the host for its own node.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == "" || value.as_array().is_some_and(Vec::is_empty)
}

/// Network actions of a handler; lifecycle handlers have only the first two.
const ACTIONS: [&str; 3] = ["httpGet", "tcpSocket", "grpc"];

/// Capacity in bytes that fits most probers.
const PROBER_BYTES: usize = 128;
