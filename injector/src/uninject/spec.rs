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
    let Some(volumes) = list_of(pod, "/spec/volumes") else { return };
    volumes.retain(|volume| {
        let name = name(volume);
        if !injected.contains(&*name) {
            let is_like_injected = VOLUMES.iter().any(|(injected, _)| *injected == name)
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

fn has_another_source(volume: &Value, name: &str) -> bool {
    let source = VOLUMES.iter().find(|(injected, _)| *injected == name);
    let source = source.and_then(|(_, source)| *source);
    source.is_some_and(|source| volume.get(source).is_none())
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
    let templates = annotation(pod, key::TEMPLATES).unwrap_or_default();
    let is_gateway = templates.split(',').any(|template| template.trim() == "gateway");
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

/// Volumes of the built-in templates, with the source of those that have the same one in all.
const VOLUMES: [(&str, Option<&str>); 9] = [
    ("credential-socket", None),
    ("istio-ca-crl", None),
    ("istio-data", Some("emptyDir")),
    ("istio-envoy", Some("emptyDir")),
    ("istio-podinfo", Some("downwardAPI")),
    ("istio-token", Some("projected")),
    ("istiod-ca-cert", None),
    ("workload-certs", None),
    ("workload-socket", None),
];

/// Domain that Istio's documentation gives for its value `global.podDNSSearchNamespaces`.
const GLOBAL: &str = "global";

/// Group of the proxy.
const PROXY_GROUP: u64 = 1337;
