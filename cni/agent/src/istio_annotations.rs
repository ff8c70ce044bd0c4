//! Capture request of a pod with Istio's annotations alone, without a container that has the
//! arguments of `istio-init`: custom templates may leave it out.
//!
//! Decision and defaults are those of Istio's plugin, with two differences: mode `NONE` leaves the pod
//! as it is, and without the annotation the mode is that of the proxy, which its listeners expect.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use istio_init::config::host_evidence::HostEvidence;
use k8s_openapi::api::core::v1::{Container, Pod};

use cni::capture_request::{CaptureRequest, NetworkFacts};
use cni::decision::{CAPTURE_CONTAINER, INTERCEPTION_MODE, PROXY, UNCAPTURED};

/// Returns the request, or the error that names the annotation with an invalid value. `None` if the
/// pod has no sidecar, or is not captured by a plugin.
pub(crate) fn request(pod: &Pod) -> Option<Result<CaptureRequest, String>> {
    let spec = pod.spec.as_ref()?;
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let named = |name| all.clone().find(|container| container.name == name);
    if named(CAPTURE_CONTAINER).is_some() || is_not_injected(pod) {
        return None;
    }
    let proxy = named(PROXY)?;
    let mode = annotation(pod, INTERCEPTION_MODE).or_else(|| variable(proxy, MODE_VARIABLE));
    if !is_sidecar(proxy) || mode == Some(UNCAPTURED) {
        return None;
    }
    let context = proxy.security_context.as_ref();
    let id = |id: Option<i64>| id.filter(|id| *id != 0).unwrap_or(PROXY_ID).to_string();
    let mut args = flags(&[
        ("-p", "15001"),
        ("-z", "15006"),
        ("-u", &id(context.and_then(|context| context.run_as_user))),
        ("-g", &id(context.and_then(|context| context.run_as_group))),
        ("-m", mode.unwrap_or("REDIRECT")),
    ]);
    for (names, flag, default) in VALUES {
        let given = names.iter().find_map(|name| annotation(pod, name));
        let value = given.unwrap_or(default);
        let value = match *flag {
            "-d" if value.is_empty() => AGENT_PORTS.to_owned(),
            "-d" => format!("{value},{AGENT_PORTS}"),
            _ => value.to_owned(),
        };
        args.extend(flags(&[(flag, &value)]));
    }
    let env: BTreeMap<_, _> = VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), variable(proxy, name)?.to_owned())))
        .collect();
    let request = match (CaptureRequest { args, env }).within_limit() {
        Ok(request) => request,
        Err(error) => return Some(Err(format!("annotations of its capture: {error}"))),
    };
    Some(match problem(&request) {
        None => Ok(request),
        Some(problem) => Err(named_problem(pod).unwrap_or(problem)),
    })
}

/// True if the pod opted out of injection by its label, or else by its annotation.
fn is_not_injected(pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    let label = labels.and_then(|labels| labels.get(INJECT)).map(String::as_str);
    label.or_else(|| annotation(pod, INJECT)).is_some_and(|value| FALSE.contains(&value))
}

/// True unless the container is another kind of proxy, or runs no Envoy.
fn is_sidecar(proxy: &Container) -> bool {
    let args: Vec<_> = proxy.args.iter().flatten().map(String::as_str).collect();
    let is_other = matches!(*args, ["proxy", kind, ..] if kind != "sidecar");
    !is_other && !variable(proxy, "DISABLE_ENVOY").is_some_and(|value| TRUE.contains(&value))
}

/// Returns the problem of a request, independent of a pod's network.
fn problem(request: &CaptureRequest) -> Option<String> {
    let facts = NetworkFacts {
        addresses: vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))],
        name_servers: None,
        host: Ok(HostEvidence::default()),
    };
    request.plan(&facts).err().map(|error| error.to_string())
}

/// Returns the problem of the first annotation with an invalid value.
fn named_problem(pod: &Pod) -> Option<String> {
    let names =
        VALUES.iter().flat_map(|(names, flag, _)| names.iter().map(move |name| (*name, *flag)));
    let mut given = names.chain([(INTERCEPTION_MODE, "-m")]).filter_map(|(name, flag)| {
        let args = flags(&[(flag, annotation(pod, name)?)]);
        let problem = problem(&CaptureRequest { args, env: BTreeMap::new() })?;
        Some(format!("annotation {name}: {problem}"))
    });
    given.next()
}

fn flags(values: &[(&str, &str)]) -> Vec<String> {
    values.iter().flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()]).collect()
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Returns the literal value of a variable.
fn variable<'a>(container: &'a Container, name: &str) -> Option<&'a str> {
    let mut env = container.env.iter().flatten();
    env.find(|variable| variable.name == name)?.value.as_deref()
}

/// Annotations of a setting, the first one first, its flag and its default.
const VALUES: &[(&[&str], &str, &str)] = &[
    (&["traffic.sidecar.istio.io/includeOutboundIPRanges"], "-i", "*"),
    (&["traffic.sidecar.istio.io/excludeOutboundIPRanges"], "-x", ""),
    (&["traffic.sidecar.istio.io/includeInboundPorts"], "-b", "*"),
    (&["traffic.sidecar.istio.io/excludeInboundPorts"], "-d", ""),
    (&["traffic.sidecar.istio.io/includeOutboundPorts"], "-q", ""),
    (&["traffic.sidecar.istio.io/excludeOutboundPorts"], "-o", "15020"),
    (&["traffic.sidecar.istio.io/excludeInterfaces"], "-c", ""),
    (
        &["istio.io/reroute-virtual-interfaces", "traffic.sidecar.istio.io/kubevirtInterfaces"],
        "-k",
        "",
    ),
];
/// Inbound ports of the proxy itself.
const AGENT_PORTS: &str = "15020,15021,15090";
/// Variables of the proxy that are settings of the capture too.
const VARIABLES: [&str; 3] = ["ISTIO_META_DNS_CAPTURE", "ISTIO_DUAL_STACK", "INVALID_DROP"];
const MODE_VARIABLE: &str = "ISTIO_META_INTERCEPTION_MODE";
/// Label and annotation by which a pod opts out.
const INJECT: &str = "sidecar.istio.io/inject";
/// User and group of the proxy unless its container has others.
const PROXY_ID: i64 = 1337;
/// Words of Go's `strconv.ParseBool`.
const TRUE: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];
const FALSE: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(pod: Value) -> Option<Result<CaptureRequest, String>> {
        request(&serde_json::from_value(pod).unwrap())
    }

    fn pod(annotations: &Value, proxy: &Value) -> Value {
        let mut container = json!({"name": "istio-proxy", "args": ["proxy", "sidecar"]});
        for (key, value) in proxy.as_object().unwrap() {
            container[key] = value.clone();
        }
        json!({"metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "app"}, container]}})
    }

    fn args(annotations: &Value, proxy: &Value) -> String {
        of(pod(annotations, proxy)).unwrap().unwrap().args.join(" ")
    }

    #[test]
    fn defaults_are_those_of_istios_plugin() {
        assert_eq!(
            args(&json!({}), &json!({})),
            "-p 15001 -z 15006 -u 1337 -g 1337 -m REDIRECT -i * -x  -b * -d 15020,15021,15090 -q  \
             -o 15020 -c  -k "
        );
    }

    #[test]
    fn annotations_and_the_proxy_set_the_flags() {
        let annotations = json!({
            "sidecar.istio.io/interceptionMode": "TPROXY",
            "traffic.sidecar.istio.io/includeOutboundIPRanges": "10.0.0.0/8",
            "traffic.sidecar.istio.io/excludeOutboundIPRanges": "10.1.0.0/16",
            "traffic.sidecar.istio.io/includeInboundPorts": "80,443",
            "traffic.sidecar.istio.io/excludeInboundPorts": "8080",
            "traffic.sidecar.istio.io/includeOutboundPorts": "9000",
            "traffic.sidecar.istio.io/excludeOutboundPorts": "9001",
            "traffic.sidecar.istio.io/excludeInterfaces": "net1",
            "traffic.sidecar.istio.io/kubevirtInterfaces": "net2",
            "istio.io/reroute-virtual-interfaces": "net3",
        });
        let proxy = json!({"securityContext": {"runAsUser": 7, "runAsGroup": 0}, "env": [
            {"name": "ISTIO_META_DNS_CAPTURE", "value": "true"}, {"name": "OTHER", "value": "x"},
            {"name": "INVALID_DROP", "valueFrom": {}}]});
        let request = of(pod(&annotations, &proxy)).unwrap().unwrap();
        assert_eq!(
            request.args.join(" "),
            "-p 15001 -z 15006 -u 7 -g 1337 -m TPROXY -i 10.0.0.0/8 -x 10.1.0.0/16 -b 80,443 -d \
             8080,15020,15021,15090 -q 9000 -o 9001 -c net1 -k net3"
        );
        let env = [("ISTIO_META_DNS_CAPTURE".to_owned(), "true".to_owned())];
        assert_eq!(request.env, BTreeMap::from(env));
    }

    #[test]
    fn pods_without_a_captured_sidecar_are_left_alone() {
        let env = |name: &str, value: &str| json!({"env": [{"name": name, "value": value}]});
        let none = json!({});
        for (annotations, proxy) in [
            (none.clone(), json!({"name": "other"})),
            (none.clone(), json!({"args": ["proxy", "router"]})),
            (none.clone(), env("DISABLE_ENVOY", "true")),
            (none, env("ISTIO_META_INTERCEPTION_MODE", "NONE")),
            (json!({"sidecar.istio.io/interceptionMode": "NONE"}), json!({})),
            (json!({"sidecar.istio.io/inject": "false"}), json!({})),
        ] {
            assert_eq!(of(pod(&annotations, &proxy)), None, "{annotations} {proxy}");
        }
        let mut opted_out = pod(&json!({"sidecar.istio.io/inject": "true"}), &json!({}));
        opted_out["metadata"]["labels"] = json!({"sidecar.istio.io/inject": "false"});
        assert_eq!(of(opted_out), None);
        let mut own = pod(&json!({}), &json!({}));
        own["spec"]["initContainers"] = json!([{"name": "istio-init"}]);
        assert_eq!(of(own), None);
    }

    /// The agent plans what every author of a pod asks for.
    #[test]
    fn more_rules_than_a_node_can_bear_are_an_error() {
        let names =
            |count: u32| (0..count).map(|it| format!("n{it}")).collect::<Vec<_>>().join(",");
        let ranges = |count: u32| {
            let ranges = (0..count).map(|it| format!("{}/32", Ipv4Addr::from((1 << 24) + it)));
            ranges.collect::<Vec<_>>().join(",")
        };
        let error = |interfaces, count| {
            let annotations = json!({
                "traffic.sidecar.istio.io/kubevirtInterfaces": names(interfaces),
                "traffic.sidecar.istio.io/includeOutboundIPRanges": ranges(count),
            });
            of(pod(&annotations, &json!({}))).unwrap().err().unwrap_or_default()
        };
        assert!(error(3000, 2500).contains("3000 interfaces with 2500 ranges each"));
        assert!(error(3, 9000).contains("at most 65536 are allowed"));
        assert_eq!(error(10, 1000), "");
    }

    #[test]
    fn invalid_annotations_are_named() {
        for (name, value) in [
            ("sidecar.istio.io/interceptionMode", "BOTH"),
            ("traffic.sidecar.istio.io/includeInboundPorts", "bad"),
            ("traffic.sidecar.istio.io/excludeInboundPorts", "80 443"),
            ("traffic.sidecar.istio.io/includeOutboundIPRanges", "10.0.0.0/99"),
            ("traffic.sidecar.istio.io/excludeOutboundPorts", "-1"),
            ("traffic.sidecar.istio.io/kubevirtInterfaces", "a b; flush ruleset"),
        ] {
            let error = of(pod(&json!({name: value}), &json!({}))).unwrap().unwrap_err();
            assert!(error.starts_with(&format!("annotation {name}: --")), "{error}");
        }
    }
}
