//! Labels of Istio and of this project.

/// The label and annotation by which a pod opts in or out.
pub const INJECT: &str = "sidecar.istio.io/inject";

/// The label by which a pod or a namespace asks for a revision.
pub const REVISION: &str = "istio.io/rev";

/// A label with an effect.
pub(crate) struct LabelSpec {
    pub(crate) key: &'static str,
    /// The kind of object that has it, in lower case.
    pub(crate) on: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the reference page shows it"))]
    pub(crate) meaning: &'static str,
}

const fn label(key: &'static str, on: &'static str, meaning: &'static str) -> LabelSpec {
    LabelSpec { key, on, meaning }
}

/// Labels with an effect on injection, on the control plane, or on both.
#[rustfmt::skip]
pub(crate) static LABELS: [LabelSpec; 20] = [
    label("istio-injection", "namespace", "`enabled`: the default revision injects its pods; any other value: no webhook is called"),
    label(REVISION, "namespace", "the revision or tag that injects its pods, if it has no label `istio-injection`"),
    label("outrigger.io/injection", "namespace", "`required`: pods without a sidecar are rejected (component `require-injection`)"),
    label(INJECT, POD, "`true` injects the pod, `false` skips it; takes precedence over the annotation of that name"),
    label(REVISION, POD, "the revision or tag that injects it, in a namespace without injection labels"),
    label("app.kubernetes.io/name", POD, "name of the canonical service, without `service.istio.io/canonical-name`; then `app`, then the workload's name"),
    label("app.kubernetes.io/version", POD, "revision of the canonical service, without `service.istio.io/canonical-revision`; then `version`, then `latest`"),
    label("service.istio.io/canonical-name", POD, "name of the canonical service; added by injection if missing"),
    label("service.istio.io/canonical-revision", POD, "revision of the canonical service; added by injection if missing"),
    label("service.istio.io/workload-name", POD, "name of the workload in the proxy's metadata, instead of the owner's name"),
    label("security.istio.io/tlsMode", POD, "`istio`: clients use mutual TLS; added by injection if missing"),
    label("networking.istio.io/tunnel", POD, "`http`: the proxy takes HBONE; added by injection if the metadata of ProxyConfig has `ISTIO_META_ENABLE_HBONE: \"true\"`"),
    label("topology.istio.io/network", POD, "network of the proxy, before the webhook's path and the values; added by injection if one of them names a network"),
    label("topology.kubernetes.io/region", "node", "region of the endpoints on it"),
    label("topology.kubernetes.io/zone", "node", "zone of the endpoints on it"),
    label("topology.istio.io/subzone", "node", "subzone of the endpoints on it"),
    label(REVISION, WEBHOOKS, "the revision that answers"),
    label("istio.io/tag", WEBHOOKS, "the tag that the configuration stands for"),
    label("multicluster.kubernetes.io/service-name", "EndpointSlice", "the slice was imported from another cluster: it is ignored"),
    label("kubernetes.io/service-name", "EndpointSlice", "the Service of its endpoints"),
];

/// Labels of Istio for pods that have no effect here.
pub(crate) const POD_LABELS_WITHOUT_EFFECT: [&str; 14] = [
    "gateway.istio.io/managed",
    "istio.io/connect-strategy",
    "istio.io/dataplane-mode",
    "istio.io/gateway-name",
    "istio.io/ingress-use-waypoint",
    "istio.io/tag",
    "istio.io/use-waypoint",
    "istio.io/use-waypoint-namespace",
    "istio.io/waypoint-for",
    "networking.istio.io/enable-autoallocate-ip",
    "networking.istio.io/gatewayPort",
    "operator.istio.io/component",
    "topology.istio.io/cluster",
    "topology.istio.io/subzone",
];

/// Returns Istio's labels that a pod may have.
pub(crate) fn of_pods() -> impl Iterator<Item = &'static str> {
    with_effect_on_pods().chain(POD_LABELS_WITHOUT_EFFECT)
}

/// Returns Istio's labels of pods that have an effect.
pub(crate) fn with_effect_on_pods() -> impl Iterator<Item = &'static str> {
    let of_pods = LABELS.iter().filter(|label| label.on == POD && label.key.contains("istio"));
    of_pods.map(|label| label.key)
}

const POD: &str = "pod";
const WEBHOOKS: &str = "webhook configuration";

#[cfg(test)]
mod tests {
    use reference_pages::{Page, code};

    use super::*;

    #[test]
    fn the_reference_page_is_current() {
        let row =
            |label: &LabelSpec| [code(label.key), label.on.to_owned(), label.meaning.to_owned()];
        let rows = LABELS.iter().map(row).collect();
        let without = POD_LABELS_WITHOUT_EFFECT.map(code).join(", ");
        let page = Page::new("Labels")
            .text(
                "Labels that are read or written, by the kind of object that has them. See also \
                 [Annotations](../annotations.md).",
            )
            .table(["label", "object", "meaning"], rows)
            .heading(2, "Labels of pods without effect")
            .text(
                "The injector knows these labels of Istio and does not warn of them. They decide \
                 nothing here; a control plane of Istio's may read them:",
            )
            .text(&format!("{without}."));
        reference_pages::check("reference/labels.md", &page.into_text());
    }
}
