//! The environment of the injected proxy, in Istio's order.

use serde_json::{Map, Value, json};

use super::Context;
use crate::settings::annotations::key;
use crate::settings::mesh_config::InboundTrafficPolicy;

pub(super) fn of(context: &Context<'_>) -> Vec<Value> {
    let values = context.values();
    let global = &values.global;
    let mesh = &context.settings.mesh;
    let workload = context.workload;
    let mut env = Environment::default();

    if mesh.inbound_traffic_policy == InboundTrafficPolicy::Localhost {
        env.text("REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION", "true");
    }
    env.text("PILOT_CERT_PROVIDER", &*global.pilot_cert_provider);
    env.text("CA_ADDR", ca_address(context));
    env.field("POD_NAME", "metadata.name");
    env.field("POD_NAMESPACE", "metadata.namespace");
    env.field("INSTANCE_IP", "status.podIP");
    env.field("SERVICE_ACCOUNT", "spec.serviceAccountName");
    env.field("HOST_IP", "status.hostIP");
    env.resource("ISTIO_CPU_LIMIT", "limits.cpu");
    env.text("PROXY_CONFIG", context.proxy_config.to_json() + "\n");
    env.text("ISTIO_META_POD_PORTS", pod_ports(context));
    env.text(
        "ISTIO_META_APP_CONTAINERS",
        context.application_containers().collect::<Vec<_>>().join(","),
    );
    env.resource("GOMEMLIMIT", "limits.memory");
    let compliance = &context.settings.process.compliance_policy;
    if !compliance.is_empty() {
        env.text("COMPLIANCE_POLICY", compliance);
        if compliance == "fips-140-3" {
            env.text("GODEBUG", "fips140=only");
        }
    }
    env.text("ISTIO_META_CLUSTER_ID", or(&global.multi_cluster.cluster_name, "Kubernetes"));
    env.field("ISTIO_META_NODE_NAME", "spec.nodeName");
    env.text("ISTIO_META_INTERCEPTION_MODE", context.interception_mode());
    env.text_unless_empty("ISTIO_META_NETWORK", &global.network);
    env.text_unless_empty(
        "ISTIO_META_WORKLOAD_NAME",
        context.label("service.istio.io/workload-name").unwrap_or(&workload.name),
    );
    if !workload.api_version.is_empty() && !workload.name.is_empty() {
        env.text(
            "ISTIO_META_OWNER",
            format!(
                "kubernetes://apis/{}/namespaces/{}/{}s/{}",
                workload.api_version,
                or(&workload.namespace, "default"),
                workload.kind.to_lowercase(),
                workload.name
            ),
        );
    }
    if context.annotations.get(key::BOOTSTRAP_OVERRIDE).is_some() {
        env.text("ISTIO_BOOTSTRAP_OVERRIDE", "/etc/istio/custom-bootstrap/custom_bootstrap.json");
    }
    let trust_domain = or(&mesh.trust_domain, &global.trust_domain);
    env.text_unless_empty("ISTIO_META_MESH_ID", or(&global.mesh_id, trust_domain));
    env.text_unless_empty("TRUST_DOMAIN", trust_domain);
    if &*global.proxy.tracer == "datadog"
        && let Some(given) = context.annotations.get(key::DATADOG_ENV)
    {
        // Validation has shown that it is an object.
        let given = serde_json::from_str::<Map<String, Value>>(given).unwrap_or_default();
        for (name, value) in given {
            env.text(&name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    for (name, value) in context.proxy_config.all_metadata() {
        env.text(name, value);
    }
    env.variables
}

fn ca_address(context: &Context<'_>) -> String {
    let values = context.values();
    if !values.global.ca_address.is_empty() {
        return values.global.ca_address.to_string();
    }
    let revision = match &*values.revision {
        "" => String::new(),
        revision => format!("-{revision}"),
    };
    format!("istiod{revision}.{}.svc:15012", &*values.global.istio_namespace)
}

/// The application's ports as a JSON list, an item a line.
fn pod_ports(context: &Context<'_>) -> String {
    let containers = context.pod["spec"]["containers"].as_array().into_iter().flatten();
    let ports =
        containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let mut list = String::from("[");
    for (index, port) in ports.enumerate() {
        list.push_str("\n    ");
        if index > 0 {
            list.push(',');
        }
        list.push_str(&container_port(port));
    }
    list.push_str("\n]");
    list
}

/// A port as Go writes the type `ContainerPort`: its fields in the type's order, none empty.
fn container_port(port: &Value) -> String {
    let fields = ["name", "hostPort", "containerPort", "protocol", "hostIP"];
    let present = fields.iter().filter_map(|field| {
        let value = port.get(*field)?;
        let empty = value.is_null() || value == "" || (value == 0 && *field != "containerPort");
        (!empty).then(|| format!("\"{field}\":{value}"))
    });
    format!("{{{}}}", present.collect::<Vec<_>>().join(","))
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

#[derive(Default)]
struct Environment {
    variables: Vec<Value>,
}

impl Environment {
    fn text(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push(json!({"name": name, "value": value.into()}));
    }

    fn text_unless_empty(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    fn field(&mut self, name: &str, path: &str) {
        let source = json!({"fieldRef": {"fieldPath": path}});
        self.variables.push(json!({"name": name, "valueFrom": source}));
    }

    fn resource(&mut self, name: &str, resource: &str) {
        let source = json!({"resourceFieldRef": {"resource": resource, "divisor": "1"}});
        self.variables.push(json!({"name": name, "valueFrom": source}));
    }
}
