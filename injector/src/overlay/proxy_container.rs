//! The proxy's container.

use serde_json::{Map, Value, json};

use super::init_container::PROXY_UID;
use super::{Context, PROXY, image, number, proxy_env, volumes};
use crate::settings::annotations::key;

pub(super) fn of(context: &Context<'_>) -> Value {
    let global = &context.values().global;
    let mut container = Map::new();
    let mut put = |key: &str, value: Value| container.insert(key.to_owned(), value);
    put("name", PROXY.into());
    put("image", image::of_proxy(context).into());
    if context.native_sidecar {
        put("restartPolicy", "Always".into());
    }
    if !global.image_pull_policy.is_empty() {
        put("imagePullPolicy", global.image_pull_policy.to_string().into());
    }
    put("ports", json!([{"containerPort": 15090, "protocol": "TCP", "name": "http-envoy-prom"}]));
    put("args", args(context).into());
    if let Some(lifecycle) = lifecycle(context) {
        put("lifecycle", lifecycle);
    }
    put("env", proxy_env::of(context).into());
    if context.status_port() != "0" {
        if global.proxy.startup_probe.enabled.on() {
            put("startupProbe", startup_probe(context));
        }
        put("readinessProbe", readiness_probe(context));
    }
    put("securityContext", security_context(context));
    put("resources", context.resources());
    put("volumeMounts", volumes::mounts(context));
    Value::Object(container)
}

fn args(context: &Context<'_>) -> Vec<String> {
    let given = context.annotations;
    let global = &context.values().global;
    let proxy = &global.proxy;
    let mut args = vec![
        "proxy".to_owned(),
        "sidecar".to_owned(),
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
    if !proxy.outlier_log_path.is_empty() {
        args.push(format!("--outlierLogPath={}", &*proxy.outlier_log_path));
    }
    args
}

fn lifecycle(context: &Context<'_>) -> Option<Value> {
    let proxy = &context.values().global.proxy;
    let given = proxy.lifecycle.as_object().filter(|lifecycle| !lifecycle.is_empty());
    let hold = context.proxy_config.hold_application_until_proxy_starts()
        || proxy.hold_application_until_proxy_starts.on();
    if given.is_some() {
        Some(proxy.lifecycle.clone())
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
        "periodSeconds": 1,
        "timeoutSeconds": 3,
        "failureThreshold": number(threshold),
    })
}

fn readiness_probe(context: &Context<'_>) -> Value {
    let proxy = &context.values().global.proxy;
    let setting = |key, default| number(context.annotations.or(key, default));
    let mut probe = json!({
        "httpGet": {"path": "/healthz/ready", "port": 15021},
        "periodSeconds": setting(key::READINESS_PERIOD, &proxy.readiness_period_seconds),
        "timeoutSeconds": 3,
        "failureThreshold":
            setting(key::READINESS_FAILURE_THRESHOLD, &proxy.readiness_failure_threshold),
    });
    let delay = setting(key::READINESS_INITIAL_DELAY, &proxy.readiness_initial_delay_seconds);
    if delay != 0 {
        probe["initialDelaySeconds"] = delay;
    }
    probe
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
    let mut security = json!({
        "allowPrivilegeEscalation": privileged || traces,
        "capabilities": capabilities,
        "privileged": privileged || traces,
        "readOnlyRootFilesystem": true,
        "runAsGroup": PROXY_UID,
        "runAsNonRoot": !root,
        "runAsUser": if root { 0 } else { PROXY_UID },
    });
    if let Some(profile) = context.seccomp_profile() {
        security["seccompProfile"] = profile.clone();
    }
    security
}
