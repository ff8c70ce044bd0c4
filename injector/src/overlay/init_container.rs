//! The init container: `istio-init`, which programs the capture, or `istio-validation`, which
//! checks the rules of the CNI plugin.

use serde_json::{Map, Value, json};

use super::context::Context;
use super::image::{self, AUTO};
use crate::istio::capture_ports::with_port;
use crate::istio::proxy_identity::{Identity, PROXY_UID};
use crate::json::short;
use crate::kubernetes::pod::INIT_CONTAINERS;
use crate::settings::annotations::key;

pub(super) fn container(context: &Context<'_>) -> Value {
    let global = &context.values().global;
    let cni = context.values().pilot.cni.enabled.on();
    let mut container = Map::new();
    let mut put = |key: &str, value: Value| container.insert(key.to_owned(), value);
    put("name", if cni { "istio-validation" } else { "istio-init" }.into());
    let image = image::of_init(context);
    let privileges = Privileges::of_image(user_image(context).as_deref().unwrap_or(&image));
    put("image", image.into());
    put("args", args(context).into());
    if !global.image_pull_policy.is_empty() {
        put("imagePullPolicy", global.image_pull_policy.to_string().into());
    }
    let env: Vec<_> = context
        .proxy_config
        .all_metadata()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    if !env.is_empty() {
        put("env", env.into());
    }
    put("resources", context.resources());
    put("securityContext", security_context(context, cni, privileges));
    Value::Object(container)
}

fn args(context: &Context<'_>) -> Vec<String> {
    let given = context.annotations;
    let values = context.values();
    let proxy = &values.global.proxy;
    let mesh = &context.settings.mesh;
    let mut args = vec!["istio-iptables".to_owned()];
    let mut put = |flag: &str, value: &str| args.extend([flag.to_owned(), value.to_owned()]);
    put("-p", &mesh.proxy_listen_port.to_string());
    put("-z", &mesh.proxy_inbound_listen_port.to_string());
    // With TPROXY, the proxy's connections are recognised by its group, which is fixed to this ID.
    let uid = if context.tproxy() { PROXY_UID } else { context.identity.uid };
    put("-u", &uid.to_string());
    put("-m", context.interception_mode());
    put("-i", given.or(key::INCLUDE_OUTBOUND_IP_RANGES, &proxy.include_ip_ranges));
    put("-x", given.or(key::EXCLUDE_OUTBOUND_IP_RANGES, &proxy.exclude_ip_ranges));
    put("-b", given.or(key::INCLUDE_INBOUND_PORTS, &proxy.include_inbound_ports));
    let excluded = excluded_inbound_ports(context);
    put("-d", format!("15090,15021,{excluded}").trim_end_matches(','));
    for (flag, key, default) in [
        ("-q", key::INCLUDE_OUTBOUND_PORTS, &proxy.include_outbound_ports),
        ("-o", key::EXCLUDE_OUTBOUND_PORTS, &proxy.exclude_outbound_ports),
    ] {
        if given.get(key).is_some() || !default.is_empty() {
            put(flag, given.or(key, default));
        }
    }
    let virtual_interfaces =
        given.get(key::REROUTE_VIRTUAL_INTERFACES).or_else(|| given.get(key::KUBEVIRT_INTERFACES));
    if let Some(interfaces) = virtual_interfaces {
        put("-k", interfaces);
    }
    if let Some(interfaces) = given.get(key::EXCLUDE_INTERFACES) {
        put("-c", interfaces);
    }
    let level = given.or(key::AGENT_LOG_LEVEL, &values.global.logging.level);
    args.push(format!("--log_output_level={level}"));
    let mut switch = |flag: &str, on: bool| args.extend(on.then(|| flag.to_owned()));
    switch("--log_as_json", values.global.log_as_json.on());
    let cni = values.pilot.cni.enabled.on();
    switch("--run-validation", cni);
    switch("--skip-rule-apply", cni);
    switch("--force-apply", !cni && values.global.proxy_init.force_apply_iptables.on());
    switch("--native-nftables", values.global.native_nftables.on());
    args
}

/// Returns the inbound ports excluded from capture: the configured ones and the agent's status
/// port.
pub(super) fn excluded_inbound_ports(context: &Context<'_>) -> String {
    let default = &context.values().global.proxy.exclude_inbound_ports;
    let excluded = context.annotations.or(key::EXCLUDE_INBOUND_PORTS, default);
    with_port(excluded, context.status_port())
}

/// Returns the image of a user-supplied init container, which takes the place of ours: that of the
/// record of an earlier injection, or of the pod.
fn user_image(context: &Context<'_>) -> Option<String> {
    let image_in = |containers: &Value| {
        let mut containers = containers.as_array().into_iter().flatten();
        let own = containers.find(|container| container["name"] == "istio-init")?;
        let image = own["image"].as_str().filter(|image| !["", AUTO].contains(image));
        image.map(str::to_owned)
    };
    let record = context.pod["metadata"]["annotations"][key::OVERRIDES].as_str();
    let record = record.and_then(short::parse::<Value>);
    let recorded = record.and_then(|record| image_in(&record[INIT_CONTAINERS]));
    recorded.or_else(|| image_in(&context.pod["spec"][INIT_CONTAINERS]))
}

/// Privileges of the container that programs the capture.
#[derive(Clone, Copy, PartialEq)]
enum Privileges {
    /// `NET_ADMIN` alone: this project's image has no iptables, and its program writes no file.
    Netlink,
    /// Istio's privileges, for an image that may run `iptables-legacy`: raw sockets, and the lock
    /// file `/run/xtables.lock`.
    Iptables,
}

impl Privileges {
    /// Returns the privileges that an image needs, by its name without registry, tag and digest.
    fn of_image(image: &str) -> Self {
        let name = image.rsplit('/').next().unwrap_or_default();
        match name.split([':', '@']).next() {
            Some("istio-init") => Self::Netlink,
            _ => Self::Iptables,
        }
    }
}

fn security_context(context: &Context<'_>, cni: bool, privileges: Privileges) -> Value {
    let privileged = context.values().global.proxy.privileged.on();
    let mut security = if cni {
        let Identity { uid, gid } =
            if context.tproxy() { Identity::default() } else { context.identity };
        json!({
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
            "runAsGroup": gid, "runAsUser": uid, "runAsNonRoot": true,
        })
    } else {
        let added: &[&str] = match privileges {
            Privileges::Netlink => &["NET_ADMIN"],
            Privileges::Iptables => &["NET_ADMIN", "NET_RAW"],
        };
        // User 0: an added capability takes effect only in a process of root.
        json!({
            "capabilities": {"add": added, "drop": ["ALL"]},
            "readOnlyRootFilesystem": privileges == Privileges::Netlink,
            "runAsGroup": 0, "runAsUser": 0, "runAsNonRoot": false,
        })
    };
    security["allowPrivilegeEscalation"] = privileged.into();
    security["privileged"] = privileged.into();
    if let Some(profile) = context.seccomp_profile() {
        security["seccompProfile"] = profile.clone();
    }
    security
}
