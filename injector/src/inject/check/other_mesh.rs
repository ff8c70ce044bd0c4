//! Sidecars of other service meshes. Two captures in one pod take each other's connections.

use reason::{Reason, words};
use serde_json::Value;

use crate::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS};

/// Returns a warning about the first other mesh whose sidecar is in the pod, or that the pod asks
/// for one.
pub(crate) fn warning(pod: &Value) -> Option<Reason> {
    MESHES.iter().find_map(|mesh| {
        let Mesh { name, opt_out, .. } = mesh;
        let sign = mesh.sign(pod)?;
        let message = format!(
            "the pod also gets the sidecar of {name}, as {sign} shows; the captures of both take \
             each other's connections"
        );
        let hint =
            format!("opt out of one of them: sidecar.istio.io/inject: \"false\", or {opt_out}");
        Some(Reason::new(words::OTHER_MESH, message).with_hint(hint))
    })
}

/// Signs of one mesh.
struct Mesh {
    name: &'static str,
    /// Names of its containers.
    containers: &'static [&'static str],
    /// Labels or annotations that its injector writes, or that ask for an injection, with their
    /// values; an empty list for any value.
    keys: &'static [(&'static str, &'static [&'static str])],
    opt_out: &'static str,
}

impl Mesh {
    /// Returns the part of the pod that belongs to the mesh.
    fn sign(&self, pod: &Value) -> Option<String> {
        let containers = [INIT_CONTAINERS, CONTAINERS]
            .iter()
            .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());
        let mut names = containers.filter_map(|container| container["name"].as_str());
        if let Some(name) = names.find(|name| self.containers.contains(name)) {
            return Some(format!("container {name}"));
        }
        let metadata = &pod["metadata"];
        self.keys.iter().find_map(|(key, values)| {
            let places = [("annotation", "annotations"), ("label", "labels")];
            let (place, _) = places.iter().find(|(_, list)| {
                let value = metadata[*list][*key].as_str();
                value.is_some_and(|value| values.is_empty() || values.contains(&value))
            })?;
            Some(format!("{place} {key}"))
        })
    }
}

const MESHES: [Mesh; 5] = [
    Mesh {
        name: "Linkerd",
        containers: &["linkerd-proxy", "linkerd-init", "linkerd-network-validator"],
        keys: &[("linkerd.io/proxy-version", &[]), ("linkerd.io/inject", &["enabled", "ingress"])],
        opt_out: "linkerd.io/inject: disabled",
    },
    Mesh {
        name: "Kuma",
        containers: &["kuma-sidecar", "kuma-init", "kuma-validation"],
        keys: &[
            ("kuma.io/sidecar-injected", &["true"]),
            ("kuma.io/sidecar-injection", &["enabled", "true"]),
        ],
        opt_out: "kuma.io/sidecar-injection: disabled",
    },
    Mesh {
        name: "Consul",
        containers: &["consul-dataplane", "consul-connect-inject-init"],
        keys: &[
            ("consul.hashicorp.com/connect-inject-status", &["injected"]),
            ("consul.hashicorp.com/connect-inject", &["true"]),
        ],
        opt_out: "consul.hashicorp.com/connect-inject: \"false\"",
    },
    Mesh {
        name: "Open Service Mesh",
        containers: &["osm-init"],
        keys: &[
            ("osm-proxy-uuid", &[]),
            ("openservicemesh.io/sidecar-injection", &["enabled", "yes", "true"]),
        ],
        opt_out: "openservicemesh.io/sidecar-injection: disabled",
    },
    Mesh {
        name: "NGINX Service Mesh",
        containers: &["nginx-mesh-sidecar", "nginx-mesh-init"],
        keys: &[("injector.nsm.nginx.com/status", &["injected"])],
        opt_out: "injector.nsm.nginx.com/auto-inject: \"false\"",
    },
];

#[cfg(test)]
mod tests {
    use documents::yaml;

    use super::*;

    #[test]
    fn sidecars_of_other_meshes_are_named() {
        for (pod, expected) in [
            ("spec: {containers: [{name: a}, {name: linkerd-proxy}]}", Some("Linkerd")),
            ("spec: {initContainers: [{name: kuma-init}]}", Some("Kuma")),
            ("metadata: {annotations: {linkerd.io/inject: enabled}}", Some("Linkerd")),
            ("metadata: {annotations: {linkerd.io/inject: disabled}}", None),
            ("metadata: {annotations: {linkerd.io/proxy-version: edge-1}}", Some("Linkerd")),
            ("metadata: {labels: {kuma.io/sidecar-injection: enabled}}", Some("Kuma")),
            ("metadata: {annotations: {kuma.io/sidecar-injected: 'false'}}", None),
            (
                "metadata: {annotations: {consul.hashicorp.com/connect-inject: 'true'}}",
                Some("Consul"),
            ),
            ("metadata: {labels: {osm-proxy-uuid: u}}", Some("Open Service Mesh")),
            ("spec: {containers: [{name: nginx-mesh-sidecar}]}", Some("NGINX Service Mesh")),
            ("spec: {containers: [{name: web}, {name: istio-proxy}]}", None),
        ] {
            let found = warning(&yaml::parse(pod).unwrap());
            let start =
                expected.map(|mesh| format!("the pod also gets the sidecar of {mesh}, as "));
            assert_eq!(found.is_some(), start.is_some(), "{pod}");
            let message = found.as_ref().map_or("", Reason::message);
            assert!(message.starts_with(&start.unwrap_or_default()), "{pod}: {message}");
        }
    }
}
