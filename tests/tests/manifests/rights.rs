//! Permissions of the installation: none is unused.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};

use crate::documents::{
    BASE, CANARY, CERT_MANAGER, DEFAULT_TAG, FILES, ISTIOD, Rendering, TAGGED, rendering,
    renderings,
};
use crate::features::REPORTS;

#[test]
fn permissions_are_restricted_by_name() {
    let webhooks = |names: &str| {
        format!(
            "admissionregistration.k8s.io/mutatingwebhookconfigurations {names}: get list watch \
             patch"
        )
    };
    let maps = "configmaps istio-sidecar-injector istio: list watch";
    let [proxy_configs, nodes] = FACTS;
    assert_eq!(
        granted(rendering(BASE)),
        [
            "secrets sidecar-injector-ca: get list watch update",
            "secrets (any name): create",
            maps,
            EVENTS,
            &webhooks("istio-sidecar-injector"),
            proxy_configs,
            nodes,
        ]
    );
    assert_eq!(
        granted(rendering(CANARY)),
        [
            "secrets sidecar-injector-ca-canary: get list watch update",
            "secrets (any name): create",
            "configmaps istio-sidecar-injector-canary istio-canary: list watch",
            EVENTS,
            &webhooks("istio-sidecar-injector-canary"),
            proxy_configs,
            nodes,
        ]
    );
    for (composition, names) in [
        (
            TAGGED,
            "istio-sidecar-injector-canary istio-revision-tag-pre-prod istio-revision-tag-prod",
        ),
        (DEFAULT_TAG, "istio-sidecar-injector-canary istio-revision-tag-default"),
        (ISTIOD, "sidecar-injector"),
    ] {
        assert_eq!(granted(rendering(composition))[4], webhooks(names));
    }
}

#[test]
fn namespaces_are_read_only_on_openshift() {
    for rendering in renderings() {
        let may = granted(rendering).iter().any(|rule| rule == NAMESPACES);
        assert_eq!(may, rendering.has("openshift"), "{:?}", rendering.composition);
    }
}

#[test]
fn mounted_files_need_no_permission_and_no_token() {
    let files = renderings().iter().filter(|one| one.has("files") || one.has("cert-manager"));
    for rendering in files.chain([rendering(FILES), rendering(CERT_MANAGER)]) {
        assert_eq!(granted(rendering), [""; 0], "{:?}", rendering.composition);
        let text = serde_json::to_string(&rendering.documents).unwrap();
        assert!(!text.contains("serviceAccountToken") && !text.contains("rbac.authorization"));
    }
}

#[test]
fn no_component_widens_a_permission() {
    for rendering in renderings() {
        for rule in granted(rendering) {
            let expected = [
                ("secrets sidecar-injector-ca", "get list watch update"),
                ("secrets (any name)", "create"),
                ("configmaps istio-sidecar-injector", "list watch"),
                (
                    "admissionregistration.k8s.io/mutatingwebhookconfigurations ",
                    "get list watch patch",
                ),
            ];
            let of_openshift = rendering.has("openshift").then_some(NAMESPACES);
            let of_probe = rendering.has("trust-probe").then_some("configmaps (any name): create");
            let of_signer = rendering.has("csr").then_some(REQUESTS);
            let of_approval = rendering.has("csr-approval").then_some(APPROVAL);
            let of_reports = rendering.has("reports").then_some(REPORTS);
            let asked_for = of_openshift.into_iter().chain(of_probe);
            let asked_for = asked_for.chain(of_reports.into_iter().flatten());
            let asked_for = asked_for.chain(of_signer).chain(of_approval.into_iter().flatten());
            if FACTS.into_iter().chain([EVENTS]).chain(asked_for).any(|known| known == rule) {
                continue;
            }
            let (what, verbs) = rule.split_once(": ").unwrap();
            assert!(
                expected.iter().any(|(begin, may)| what.starts_with(begin) && *may == verbs),
                "{:?}: {rule}",
                rendering.composition
            );
            assert!(!rule.contains('*'), "{rule}");
            assert!(
                !(rendering.has("csr") && rule.starts_with("secrets")),
                "{rule}: there is none"
            );
            if rendering.has("no-create") {
                assert!(!rule.contains("(any name)"), "{rule}");
            }
        }
    }
}

/// Returns the permissions of the account: in its namespace, then in the cluster.
pub(crate) fn granted(rendering: &Rendering) -> Vec<String> {
    let roles = rendering.all::<Role>("Role").into_iter().filter_map(|role| role.rules);
    let cluster_roles = rendering.all::<ClusterRole>("ClusterRole").into_iter();
    let rules = roles.chain(cluster_roles.filter_map(|role| role.rules)).flatten();
    rules.map(|rule| in_words(&rule)).collect()
}

fn in_words(rule: &PolicyRule) -> String {
    let list = |list: &Option<Vec<String>>| list.as_deref().unwrap_or_default().join(" ");
    let group = list(&rule.api_groups);
    let slash = if group.is_empty() { "" } else { "/" };
    let names = match list(&rule.resource_names) {
        names if names.is_empty() => "(any name)".to_owned(),
        names => names,
    };
    format!("{group}{slash}{} {names}: {}", list(&rule.resources), rule.verbs.join(" "))
}

/// Cluster-wide read permissions.
const FACTS: [&str; 2] =
    ["networking.istio.io/proxyconfigs (any name): list watch", "nodes (any name): list watch"];
/// Permission for Events about the certificate, in the injector's own namespace.
const EVENTS: &str = "events.k8s.io/events (any name): create";
/// Permission for requests to a cluster signer.
const REQUESTS: &str = "certificates.k8s.io/certificatesigningrequests (any name): create get";
const APPROVAL: [&str; 2] = [
    "certificates.k8s.io/certificatesigningrequests/approval (any name): update",
    "certificates.k8s.io/signers example.com/serving: approve",
];
const NAMESPACES: &str = "namespaces (any name): get list watch";
