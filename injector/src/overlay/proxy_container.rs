//! The proxy's container, as sidecar, gateway or gRPC agent.

use serde_json::{Map, Value, json};

use super::context::{Context, number};
use super::{image, proxy_env, volumes};
use crate::istio::proxy_identity::{Identity, PROXY_UID};
use crate::kubernetes::pod::PROXY;
use crate::settings::annotations::key;

/// Returns the container of a sidecar.
pub(super) fn of_sidecar(context: &Context<'_>) -> Value {
    let global = &context.values().global;
    let mut container = begin(context);
    let mut put = |key: &str, value: Value| container.insert(key.to_owned(), value);
    if context.native_sidecar {
        put("restartPolicy", "Always".into());
    }
    put("ports", envoy_ports());
    let mut args = args(context, "sidecar");
    if !global.proxy.outlier_log_path.is_empty() {
        args.push(format!("--outlierLogPath={}", &*global.proxy.outlier_log_path));
    }
    put("args", args.into());
    if let Some(lifecycle) = lifecycle(context) {
        put("lifecycle", lifecycle);
    }
    put("env", proxy_env::of_sidecar(context).into());
    if context.status_port() != "0" {
        if global.proxy.startup_probe.enabled.on() {
            put("startupProbe", startup_probe(context));
        }
        put("readinessProbe", readiness_probe(15021, &own_readiness(context)));
    }
    put("securityContext", security_context(context));
    put("resources", context.resources());
    put("volumeMounts", volumes::mounts_of_sidecar(context));
    Value::Object(container)
}

/// Returns the container of a gateway.
pub(super) fn of_gateway(context: &Context<'_>) -> Value {
    let proxy = &context.values().global.proxy;
    let mut container = begin(context);
    let mut put = |key: &str, value: Value| container.insert(key.to_owned(), value);
    put("ports", envoy_ports());
    put("args", args(context, "router").into());
    if let Some(lifecycle) = given_lifecycle(context) {
        put("lifecycle", lifecycle);
    }
    let Identity { uid, gid } = context.identity;
    put("securityContext", json!({"runAsUser": uid, "runAsGroup": gid}));
    put("env", proxy_env::of_gateway(context).into());
    let readiness = [
        &*proxy.readiness_initial_delay_seconds,
        &*proxy.readiness_period_seconds,
        &*proxy.readiness_failure_threshold,
    ];
    put("readinessProbe", readiness_probe(15021, &readiness));
    put("volumeMounts", volumes::mounts_of_gateway(context));
    Value::Object(container)
}

/// Returns the container of the agent for a proxyless gRPC application.
pub(super) fn of_grpc_agent(context: &Context<'_>) -> Value {
    let mut container = begin(context);
    let mut put = |key: &str, value: Value| container.insert(key.to_owned(), value);
    put("ports", json!([{"containerPort": 15020, "protocol": "TCP", "name": "mesh-metrics"}]));
    put("args", args(context, "sidecar").into());
    let wait = ["pilot-agent", "wait", "--url=http://localhost:15020/healthz/ready"];
    put("lifecycle", json!({"postStart": {"exec": {"command": wait}}}));
    put("env", proxy_env::of_grpc_agent(context).into());
    if context.status_port() != "0" {
        put("readinessProbe", readiness_probe(15020, &own_readiness(context)));
    }
    put("resources", context.resources());
    put("volumeMounts", volumes::mounts_of_grpc_agent(context));
    Value::Object(container)
}

fn begin(context: &Context<'_>) -> Map<String, Value> {
    let mut container = Map::new();
    container.insert("name".to_owned(), PROXY.into());
    container.insert("image".to_owned(), image::of_proxy(context).into());
    let policy = &context.values().global.image_pull_policy;
    if !policy.is_empty() {
        container.insert("imagePullPolicy".to_owned(), policy.to_string().into());
    }
    container
}

fn envoy_ports() -> Value {
    json!([{"containerPort": 15090, "protocol": "TCP", "name": "http-envoy-prom"}])
}

fn args(context: &Context<'_>, role: &str) -> Vec<String> {
    let given = context.annotations;
    let global = &context.values().global;
    let proxy = &global.proxy;
    let mut args = vec![
        "proxy".to_owned(),
        role.to_owned(),
        "--domain".to_owned(),
        format!("$(POD_NAMESPACE).svc.{}", &*proxy.cluster_domain),
        format!("--proxyLogLevel={}", given.or(key::LOG_LEVEL, &proxy.log_level)),
        format!(
            "--proxyComponentLogLevel={}",
            given.or(key::COMPONENT_LOG_LEVEL, &proxy.component_log_level)
        ),
        format!("--log_output_level={}", given.or(key::AGENT_LOG_LEVEL, &global.logging.level)),
    ];
    if !["", "0"].contains(&&*global.sts.service_port) {
        args.push(format!("--stsPort={}", &*global.sts.service_port));
    }
    if global.log_as_json.on() {
        args.push("--log_as_json".to_owned());
    }
    args
}

/// Returns the operator's `lifecycle`, which is passed on unchanged.
fn given_lifecycle(context: &Context<'_>) -> Option<Value> {
    let given = &context.values().global.proxy.lifecycle;
    given.as_object().filter(|lifecycle| !lifecycle.is_empty()).map(|_| given.clone())
}

fn lifecycle(context: &Context<'_>) -> Option<Value> {
    let proxy = &context.values().global.proxy;
    let given = given_lifecycle(context);
    let hold = context.proxy_config.hold_application_until_proxy_starts()
        || proxy.hold_application_until_proxy_starts.on();
    if given.is_some() {
        given
    } else if context.native_sidecar {
        let port = format!("--debug-port={}", context.status_port());
        let drain = ["pilot-agent", "request", &port, "POST", "drain"];
        Some(json!({"preStop": {"exec": {"command": drain}}}))
    } else {
        hold.then(|| json!({"postStart": {"exec": {"command": ["pilot-agent", "wait"]}}}))
    }
}

fn startup_probe(context: &Context<'_>) -> Value {
    let threshold = &context.values().global.proxy.startup_probe.failure_threshold;
    json!({
        "httpGet": {"path": "/healthz/ready", "port": 15021},
        "initialDelaySeconds": null,
        "periodSeconds": 1,
        "timeoutSeconds": 3,
        "failureThreshold": number(threshold),
    })
}

/// Returns initial delay, period and failure threshold: from the pod's annotations, or else from
/// the values.
fn own_readiness<'a>(context: &Context<'a>) -> [&'a str; 3] {
    let proxy = &context.values().global.proxy;
    let given = context.annotations;
    [
        given.or(key::READINESS_INITIAL_DELAY, &proxy.readiness_initial_delay_seconds),
        given.or(key::READINESS_PERIOD, &proxy.readiness_period_seconds),
        given.or(key::READINESS_FAILURE_THRESHOLD, &proxy.readiness_failure_threshold),
    ]
}

fn readiness_probe(port: u16, [delay, period, threshold]: &[&str; 3]) -> Value {
    let delay = number(delay);
    json!({
        "httpGet": {"path": "/healthz/ready", "port": port},
        // Kubernetes omits a zero. The null removes a value of a previous injection.
        "initialDelaySeconds": if delay == 0 { Value::Null } else { delay },
        "periodSeconds": number(period),
        "timeoutSeconds": 3,
        "failureThreshold": number(threshold),
    })
}

fn security_context(context: &Context<'_>) -> Value {
    let proxy = &context.values().global.proxy;
    let privileged = proxy.privileged.on();
    let binds_low_ports =
        context.annotations.or(key::CAP_NET_BIND_SERVICE, &proxy.cap_net_bind_service) == "true";
    let traces = context.proxy_config.metadata("IPTABLES_TRACE_LOGGING") == Some("true");
    let mut capabilities = Map::new();
    let added: Vec<&str> = [
        ("NET_ADMIN", context.tproxy() || traces),
        ("NET_BIND_SERVICE", binds_low_ports && !traces),
    ]
    .into_iter()
    .filter_map(|(capability, wanted)| wanted.then_some(capability))
    .collect();
    if !added.is_empty() {
        capabilities.insert("add".to_owned(), added.into());
    }
    capabilities.insert("drop".to_owned(), json!(["ALL"]));
    let root = context.tproxy() || binds_low_ports || traces;
    // TPROXY and the capture of low ports recognise the proxy's connections by this group.
    let fixed_group = (context.tproxy() || binds_low_ports) && !traces;
    let mut security = json!({
        "allowPrivilegeEscalation": privileged || traces,
        "capabilities": capabilities,
        "privileged": privileged || traces,
        "readOnlyRootFilesystem": true,
        "runAsGroup": if fixed_group { PROXY_UID } else { context.identity.gid },
        "runAsNonRoot": !root,
        "runAsUser": if root { 0 } else { context.identity.uid },
    });
    if let Some(profile) = context.seccomp_profile() {
        security["seccompProfile"] = profile.clone();
    }
    security
}
