//! Capture by Istio's CNI plugin, from the annotations of a pod.

use injector::settings::annotations::key;
use serde_json::Value;

use super::capture::{CaptureCommand, proxy};

/// Returns the flags of the rules that the plugin makes; the reason if it makes none.
pub(super) fn command(pod: &Value) -> Result<CaptureCommand, String> {
    let proxy = proxy(pod).ok_or("the pod has no sidecar")?;
    let env = |name: &str| {
        let mut variables = proxy["env"].as_array().into_iter().flatten();
        variables.find(|variable| variable["name"] == name)?["value"].as_str()
    };
    if proxy["args"][1].as_str().is_some_and(|kind| kind != "sidecar") {
        return Err("the proxy is a gateway, not a sidecar".to_owned());
    }
    if env("DISABLE_ENVOY") == Some("true") {
        return Err("the agent runs without Envoy, for gRPC applications".to_owned());
    }
    let annotation = |key: &str| pod["metadata"]["annotations"][key].as_str();
    let mode = annotation(key::INTERCEPTION_MODE).or(env("ISTIO_META_INTERCEPTION_MODE"));
    let mode = mode.unwrap_or("REDIRECT");
    if mode == "NONE" {
        return Err("the interception mode is NONE".to_owned());
    }
    let or = |key, default| annotation(key).unwrap_or(default).to_owned();
    let excluded = or(key::EXCLUDE_INBOUND_PORTS, "15020");
    let mut excluded: Vec<&str> = excluded.split(',').filter(|port| !port.is_empty()).collect();
    for port in ["15020", "15021", "15090"] {
        if !excluded.contains(&port) {
            excluded.push(port);
        }
    }
    let owner = |field: &str| match proxy["securityContext"][field].as_u64() {
        None | Some(0) => PROXY_ID.to_owned(),
        Some(id) => id.to_string(),
    };
    let mut args = Vec::new();
    for (flag, value) in [
        ("-m", mode.to_owned()),
        ("-u", owner("runAsUser")),
        ("-g", owner("runAsGroup")),
        ("-i", or(key::INCLUDE_OUTBOUND_IP_RANGES, "*")),
        ("-x", or(key::EXCLUDE_OUTBOUND_IP_RANGES, "")),
        ("-b", or(key::INCLUDE_INBOUND_PORTS, "*")),
        ("-d", excluded.join(",")),
        ("-q", or(key::INCLUDE_OUTBOUND_PORTS, "")),
        ("-o", or(key::EXCLUDE_OUTBOUND_PORTS, "15020")),
        ("-c", or(key::EXCLUDE_INTERFACES, "")),
        ("-k", or(key::KUBEVIRT_INTERFACES, "")),
    ] {
        args.extend([flag.to_owned(), value]);
    }
    let is_on = |name| matches!(env(name), Some("true" | "1" | "t" | "T" | "TRUE" | "True"));
    for (name, flags) in [
        // The plugin does not see the pod's resolv.conf.
        ("ISTIO_META_DNS_CAPTURE", &["--redirect-dns", "--capture-all-dns"][..]),
        ("ISTIO_DUAL_STACK", &["--dual-stack"]),
        ("INVALID_DROP", &["--drop-invalid"]),
    ] {
        if is_on(name) {
            args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        }
    }
    Ok(CaptureCommand { args, ..CaptureCommand::default() })
}

const PROXY_ID: &str = "1337";
