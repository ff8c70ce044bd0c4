//! Environment variables of an injected proxy, in Istio's order.

use mesh::mesh_config::InboundTrafficPolicy;
use serde_json::{Map, Value, json};

use super::context::{Context, object};
use crate::istio::{container_port, otel_attributes};
use crate::settings::annotations::key;

/// Returns the environment of a sidecar.
pub(super) fn of_sidecar(context: &Context<'_>) -> Vec<Value> {
    let mut env = Environment::default();
    env.localhost(context);
    env.control_plane(context);
    env.resource("ISTIO_CPU_LIMIT", "limits.cpu");
    env.configuration(context);
    env.application(context);
    env.resource("GOMEMLIMIT", "limits.memory");
    env.compliance(context);
    env.place(context);
    env.text("ISTIO_META_INTERCEPTION_MODE", context.interception_mode());
    env.network(context);
    let workload = context.label("service.istio.io/workload-name");
    env.workload(context, workload.unwrap_or(&context.workload.name));
    env.bootstrap(context);
    env.trust(context);
    env.datadog(context);
    env.text_unless_empty(SPAN_ATTRIBUTES, &resource_attributes(context));
    env.metadata(context);
    env.variables
}

/// Returns the environment of a gateway.
pub(super) fn of_gateway(context: &Context<'_>) -> Vec<Value> {
    let mut env = Environment::default();
    env.control_plane(context);
    env.resource("ISTIO_CPU_LIMIT", "limits.cpu");
    env.configuration(context);
    env.resource("GOMEMLIMIT", "limits.memory");
    env.compliance(context);
    env.application(context);
    env.place(context);
    env.text("ISTIO_META_INTERCEPTION_MODE", context.proxy_config.interception_mode());
    env.network(context);
    env.workload(context, &context.workload.name);
    env.bootstrap(context);
    env.trust(context);
    env.metadata(context);
    env.variables
}

/// Returns the environment of the agent for a proxyless gRPC application.
pub(super) fn of_grpc_agent(context: &Context<'_>) -> Vec<Value> {
    let mut env = Environment::default();
    env.text("ISTIO_META_GENERATOR", "grpc");
    env.text("OUTPUT_CERTS", "/var/lib/istio/data");
    env.localhost(context);
    env.control_plane(context);
    env.configuration(context);
    env.application(context);
    env.place(context);
    env.network(context);
    env.workload(context, &context.workload.name);
    env.trust(context);
    env.metadata(context);
    // gRPC resolves `xds:///` addresses itself.
    env.text("ISTIO_META_DNS_CAPTURE", "false");
    env.text("DISABLE_ENVOY", "true");
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

/// Returns the application's ports as a JSON list, one item per line.
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
        list.push_str(&container_port::json(port));
    }
    list.push_str("\n]");
    list
}

fn resource_attributes(context: &Context<'_>) -> String {
    let providers = &context.settings.mesh.extension_providers;
    if !otel_attributes::asks(providers) {
        return String::new();
    }
    let containers = context.pod["spec"]["containers"].as_array().into_iter().flatten();
    let containers: Vec<_> = containers
        .map(|c| (c["name"].as_str().unwrap_or_default(), c["image"].as_str().unwrap_or_default()))
        .collect();
    otel_attributes::resource_attributes(
        providers,
        |key| context.annotations.get(key),
        |key| context.label(key),
        &context.workload.namespace,
        &containers,
    )
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

#[derive(Default)]
struct Environment {
    variables: Vec<Value>,
}

impl Environment {
    fn localhost(&mut self, context: &Context<'_>) {
        if context.settings.mesh.inbound_traffic_policy == InboundTrafficPolicy::Localhost {
            self.text("REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION", "true");
        }
    }

    fn control_plane(&mut self, context: &Context<'_>) {
        self.text("PILOT_CERT_PROVIDER", &*context.values().global.pilot_cert_provider);
        self.text("CA_ADDR", ca_address(context));
        self.field("POD_NAME", "metadata.name");
        self.field("POD_NAMESPACE", "metadata.namespace");
        self.field("INSTANCE_IP", "status.podIP");
        self.field("SERVICE_ACCOUNT", "spec.serviceAccountName");
        self.field("HOST_IP", "status.hostIP");
    }

    fn configuration(&mut self, context: &Context<'_>) {
        self.text("PROXY_CONFIG", context.proxy_config.to_json() + "\n");
        self.text(POD_PORTS, pod_ports(context));
    }

    fn application(&mut self, context: &Context<'_>) {
        let containers: Vec<_> = context.application_containers().collect();
        self.text("ISTIO_META_APP_CONTAINERS", containers.join(","));
    }

    fn compliance(&mut self, context: &Context<'_>) {
        let policy = &context.settings.process.compliance_policy;
        self.text_unless_empty("COMPLIANCE_POLICY", policy);
        if policy == "fips-140-3" {
            self.text("GODEBUG", "fips140=only");
        }
    }

    fn place(&mut self, context: &Context<'_>) {
        let cluster = &context.values().global.multi_cluster.cluster_name;
        self.text("ISTIO_META_CLUSTER_ID", or(cluster, "Kubernetes"));
        self.field("ISTIO_META_NODE_NAME", "spec.nodeName");
    }

    fn network(&mut self, context: &Context<'_>) {
        self.text_unless_empty("ISTIO_META_NETWORK", &context.values().global.network);
    }

    fn workload(&mut self, context: &Context<'_>, name: &str) {
        let workload = context.workload;
        self.text_unless_empty("ISTIO_META_WORKLOAD_NAME", name);
        if !workload.api_version.is_empty() && !workload.name.is_empty() {
            let owner = format!(
                "kubernetes://apis/{}/namespaces/{}/{}s/{}",
                workload.api_version,
                or(&workload.namespace, "default"),
                workload.kind.to_lowercase(),
                workload.name
            );
            self.text("ISTIO_META_OWNER", owner);
        }
    }

    fn bootstrap(&mut self, context: &Context<'_>) {
        if context.annotations.get(key::BOOTSTRAP_OVERRIDE).is_some() {
            let file = "/etc/istio/custom-bootstrap/custom_bootstrap.json";
            self.text("ISTIO_BOOTSTRAP_OVERRIDE", file);
        }
    }

    fn trust(&mut self, context: &Context<'_>) {
        let global = &context.values().global;
        let domain = or(&context.settings.mesh.trust_domain, &global.trust_domain);
        self.text_unless_empty("ISTIO_META_MESH_ID", or(&global.mesh_id, domain));
        self.text_unless_empty("TRUST_DOMAIN", domain);
    }

    fn datadog(&mut self, context: &Context<'_>) {
        if &*context.values().global.proxy.tracer == "datadog"
            && let Some(given) = context.annotations.get(key::DATADOG_ENV)
        {
            // Validation has checked that the value is an object.
            let given = serde_json::from_str::<Map<String, Value>>(given).unwrap_or_default();
            for (name, value) in given {
                self.text(&name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            }
        }
    }

    fn metadata(&mut self, context: &Context<'_>) {
        for (name, value) in context.proxy_config.all_metadata() {
            self.text(name, value);
        }
    }

    fn text(&mut self, name: &str, value: impl Into<String>) {
        let value = Value::String(value.into());
        self.variables.push(object([("name", name.into()), ("value", value)]));
    }

    fn text_unless_empty(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    fn field(&mut self, name: &str, path: &str) {
        let source = object([("fieldRef", object([("fieldPath", path.into())]))]);
        self.variables.push(object([("name", name.into()), ("valueFrom", source)]));
    }

    fn resource(&mut self, name: &str, resource: &str) {
        let source = json!({"resourceFieldRef": {"resource": resource, "divisor": "1"}});
        self.variables.push(object([("name", name.into()), ("valueFrom", source)]));
    }
}

/// The proxy's variable that names the ports of all containers, in their order.
pub(crate) const POD_PORTS: &str = "ISTIO_META_POD_PORTS";

/// The proxy's variable that tells whose its spans are.
pub(crate) const SPAN_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
