//! Volumes and other fields of a pod's spec before injection.

use std::collections::HashSet;

use reason::Reason;
use serde_json::Value;

use super::{doubt, remove_if_empty};
use crate::inject::reinject::status::{InjectionStatus, STATUS};
use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS, annotation};
use crate::kubernetes::pod_schema::PodList;
use crate::overlay::gateway::UNPRIVILEGED_PORTS;
use crate::settings::annotation_json;
use crate::settings::annotations::key;
use crate::settings::template_names;

/// Removes the fields that injection adds beside containers. The containers of `pod` are already
/// restored.
pub(super) fn restore(pod: &mut Value, status: &InjectionStatus, doubts: &mut Vec<Reason>) {
    restore_volumes(pod, status, doubts);
    restore_pull_secrets(pod, status, doubts);
    restore_security(pod, doubts);
    restore_dns(pod, doubts);
}

/// Removes the injected volumes. A volume that a restored container mounts, or that has another
/// source than injection gives it, is the user's, and only has the name of an injected one.
fn restore_volumes(pod: &mut Value, status: &InjectionStatus, doubts: &mut Vec<Reason>) {
    let by_annotation = annotation(pod, key::USER_VOLUME)
        .and_then(|text| annotation_json::named_objects(PodList::Volume, text));
    let by_annotation: HashSet<_> = by_annotation.iter().flatten().map(name).collect();
    let injected: HashSet<_> = status.volumes().iter().map(String::as_str).collect();
    let mounted = mounted(pod);
    // A template of the user may be what gives the sockets and certificates another source.
    let is_custom = template_names::requested_of_user(pod).next().is_some();
    let has_another_source = |volume: &Value, name: &str| {
        !(is_custom && REPLACEABLE.contains(&name)) && has_another_source(volume, name)
    };
    let Some(volumes) = list_of(pod, "/spec/volumes") else { return };
    volumes.retain(|volume| {
        let name = name(volume);
        if !injected.contains(&*name) {
            let is_like_injected = VOLUMES.contains(&&*name)
                && !mounted.contains(&name)
                && !has_another_source(volume, &name);
            let field = format!("volume {name}, which the annotation {STATUS} does not name,");
            doubts.extend(is_like_injected.then(|| doubt::may_be_injected(&field)));
            return true;
        }
        let own = mounted.contains(&name) || has_another_source(volume, &name);
        let kept = own && !by_annotation.contains(&name);
        let field = || format!("volume {name}, which has the name of an injected one,");
        doubts.extend(kept.then(|| doubt::may_be_injected(&field())));
        kept
    });
    if !injected.is_empty() {
        remove_if_empty(pod.get_mut("spec"), "volumes");
    }
}

/// True if no template of Istio gives the volume this source, with the defaults of the API server.
pub(super) fn has_another_source(volume: &Value, name: &str) -> bool {
    let members = volume.as_object().into_iter().flatten();
    let sources = members.filter(|(key, value)| *key != "name" && !value.is_null());
    let sources: Vec<_> = sources.map(|(key, source)| (key.as_str(), source)).collect();
    let (kind, source) = match sources[..] {
        [] => ("emptyDir", &Value::Null),
        [source] => source,
        _ => return true,
    };
    // True for an object of these members alone, apart from the default mode.
    let is = |expected: &[(&str, Value)]| {
        let Some(members) = source.as_object() else { return source.is_null() };
        let given =
            members.iter().filter(|(key, value)| *key != "defaultMode" || **value != DEFAULT_MODE);
        given.count() == expected.len() && expected.iter().all(|(key, value)| source[key] == *value)
    };
    let single = |field: &str| match source["sources"].as_array().map(Vec::as_slice) {
        Some([one]) if kind == "projected" => &one[field],
        _ => &Value::Null,
    };
    let is_injected = match name {
        "credential-socket" | "istio-data" | "workload-certs" | "workload-socket" => {
            kind == "emptyDir" && is(&[])
        }
        "istio-envoy" => kind == "emptyDir" && (is(&[]) || is(&[("medium", "Memory".into())])),
        "istio-podinfo" => {
            kind == "downwardAPI"
                && source["items"].as_array().is_some_and(|items| {
                    items.iter().all(|item| PODINFO.iter().any(|path| item["path"] == *path))
                })
        }
        "istio-token" => single("serviceAccountToken")["path"] == name,
        "istiod-ca-cert" => {
            kind == "configMap" && is(&[("name", "istio-ca-root-cert".into())])
                || single("clusterTrustBundle")["path"] == "root-cert.pem"
        }
        "istio-ca-crl" => {
            kind == "configMap" && is(&[("name", name.into()), ("optional", true.into())])
        }
        _ => true,
    };
    !is_injected
}

/// Returns the names of the volumes that the containers use.
fn mounted(pod: &Value) -> HashSet<String> {
    let lists = [CONTAINERS, INIT_CONTAINERS].map(|list| pod["spec"][list].as_array());
    let containers = lists.into_iter().flatten().flatten();
    let mounts = containers.flat_map(|container| {
        ["volumeMounts", "volumeDevices"].map(|mounts| container[mounts].as_array())
    });
    mounts.flatten().flatten().map(name).collect()
}

fn restore_pull_secrets(pod: &mut Value, status: &InjectionStatus, doubts: &mut Vec<Reason>) {
    let Some(secrets) = list_of(pod, "/spec/imagePullSecrets") else { return };
    let injected = status.image_pull_secrets();
    secrets.retain(|secret| {
        let name = name(secret);
        let removed = injected.contains(&name);
        let field = || format!("spec.imagePullSecrets[{name}]");
        doubts.extend(removed.then(|| doubt::may_be_own(&field())));
        !removed
    });
    if !injected.is_empty() {
        remove_if_empty(pod.get_mut("spec"), "imagePullSecrets");
    }
}

/// Removes what templates add to the pod's security context: the `sysctl` of gateways, and the
/// group of the proxy that older versions of Istio set.
fn restore_security(pod: &mut Value, doubts: &mut Vec<Reason>) {
    let is_gateway = template_names::requested(pod).any(|name| name == "gateway");
    let Some(security) = pod.pointer_mut("/spec/securityContext") else { return };
    let injected = security.clone();
    if security["fsGroup"] == PROXY_GROUP {
        doubts.push(doubt::may_be_own("spec.securityContext.fsGroup 1337"));
        security.as_object_mut().map(|security| security.remove("fsGroup"));
    }
    if let Some(sysctls) = list_of(security, "/sysctls").filter(|_| is_gateway) {
        sysctls.retain(|sysctl| sysctl["name"] != UNPRIVILEGED_PORTS || sysctl["value"] != "0");
    }
    if *security != injected {
        remove_if_empty(Some(security), "sysctls");
        remove_if_empty(pod.get_mut("spec"), "securityContext");
    }
}

fn restore_dns(pod: &mut Value, doubts: &mut Vec<Reason>) {
    let Some(dns) = pod.pointer_mut("/spec/dnsConfig") else { return };
    let Some(searches) = list_of(dns, "/searches") else { return };
    if !searches.iter().any(|domain| domain == GLOBAL) {
        return;
    }
    let is_of_a_namespace = |domain: &str| {
        domain.strip_suffix(".global").is_some_and(|namespace| !namespace.contains('.'))
    };
    searches.retain(|domain| {
        domain.as_str().is_none_or(|domain| domain != GLOBAL && !is_of_a_namespace(domain))
    });
    remove_if_empty(Some(dns), "searches");
    remove_if_empty(pod.get_mut("spec"), "dnsConfig");
    doubts.push(doubt::may_be_own(
        "the search domains global and NAMESPACE.global of spec.dnsConfig",
    ));
}

fn list_of<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Vec<Value>> {
    value.pointer_mut(path)?.as_array_mut()
}

fn name(object: &Value) -> String {
    object["name"].as_str().unwrap_or_default().to_owned()
}

/// Volumes of the built-in templates.
pub(super) const VOLUMES: [&str; 10] = [
    "credential-socket",
    "istio-ca-crl",
    "istio-certs",
    "istio-data",
    "istio-envoy",
    "istio-podinfo",
    "istio-token",
    "istiod-ca-cert",
    "workload-certs",
    "workload-socket",
];

/// Volumes whose source templates for other authorities replace.
const REPLACEABLE: [&str; 5] =
    ["credential-socket", "istio-ca-crl", "istiod-ca-cert", "workload-certs", "workload-socket"];

/// Files of the pod's metadata; older versions of Istio have those of the CPU.
const PODINFO: [&str; 4] = ["annotations", "cpu-limit", "cpu-request", "labels"];

/// Mode that the API server gives files of a volume without one: 0644.
const DEFAULT_MODE: u32 = 420;

/// Domain that Istio's documentation gives for its value `global.podDNSSearchNamespaces`.
const GLOBAL: &str = "global";

/// Group of the proxy.
const PROXY_GROUP: u64 = 1337;
