//! Probes and lifecycle handlers of the application before injection.

use reason::Reason;
use serde_json::{Map, Value};

use super::doubt;
use crate::inject::computed_env::PROBERS;
use crate::inject::postprocess::original_handler::put_back;
use crate::inject::postprocess::probes::{HANDLERS, HandlerKind};
use crate::json::short;
use crate::kubernetes::pod::proxy_env;

/// Original handlers, as injection passed them to the agent, by the agent's path.
pub(super) struct Probers {
    handlers: Map<String, Value>,
    /// True if the environment of the proxy does not hold the handlers, but another text.
    is_invalid: bool,
}

impl Probers {
    pub(super) fn from_pod(pod: &Value) -> Self {
        let text = proxy_env(pod, PROBERS).filter(|text| !text.is_empty());
        let handlers = text.map(short::parse);
        let is_invalid = matches!(handlers, Some(None));
        Self { handlers: handlers.flatten().unwrap_or_default(), is_invalid }
    }

    /// Restores the handlers of a container that the agent calls.
    pub(super) fn restore(&self, container: &mut Value, list: &str, doubts: &mut Vec<Reason>) {
        let name = container["name"].as_str().unwrap_or_default().to_owned();
        // Handlers do not have this key.
        let ports = container.get_mut("ports").map(Value::take);
        for kind in &HANDLERS {
            let path = kind.agent_path(&name);
            let handler = kind
                .path
                .iter()
                .try_fold(&mut *container, |value, key| value.get_mut(*key))
                .filter(|handler| handler["httpGet"]["path"] == path);
            let Some(handler) = handler.and_then(Value::as_object_mut) else { continue };
            let field = field(list, &name, kind);
            let prober = self.handlers.get(&path);
            let restored = prober.and_then(|prober| Some((prober, put_back(handler, prober)?)));
            let Some((prober, action)) = restored else {
                let start = format!("{field} still calls the agent");
                doubts.push(if self.is_invalid {
                    doubt::lost_record(format!(
                        "{start}: variable {PROBERS} of istio-proxy is not the JSON of injection"
                    ))
                } else {
                    doubt::not_recorded(format!(
                        "{start}: the environment of istio-proxy has no handler {path}"
                    ))
                });
                continue;
            };
            // The port of gRPC is a number always.
            let names =
                names_of(ports.as_ref(), &prober[action]["port"]).filter(|_| action != "grpc");
            if let Some(names) = names {
                let message = format!(
                    "{field}.{action}.port is the number {}; the author may have written the \
                     name {names}",
                    prober[action]["port"]
                );
                doubts.push(doubt::not_recorded(message));
            }
        }
        if let Some(ports) = ports {
            container["ports"] = ports;
        }
    }
}

/// Returns the names of a container's ports with this number; `None` without any.
fn names_of(ports: Option<&Value>, number: &Value) -> Option<String> {
    let ports = ports.and_then(Value::as_array).into_iter().flatten();
    let same = ports.filter(|port| port["containerPort"] == *number);
    let names: Vec<_> = same.filter_map(|port| port["name"].as_str()).collect();
    (!names.is_empty()).then(|| names.join(" or "))
}

fn field(list: &str, container: &str, kind: &HandlerKind) -> String {
    format!("spec.{list}[{container}].{}", kind.path.join("."))
}
