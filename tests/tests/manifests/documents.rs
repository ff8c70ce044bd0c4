//! Parsed documents of `manifests/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use e2e::manifests::Composition;
use e2e::programs::{Programs, repository};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, MutatingWebhookConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Rendering of one composition.
pub(crate) struct Rendering {
    pub(crate) composition: Composition,
    pub(crate) documents: Vec<Value>,
}

impl Rendering {
    /// Returns every object of a kind.
    pub(crate) fn all<T: DeserializeOwned>(&self, kind: &str) -> Vec<T> {
        let found = self.documents.iter().filter(|document| document["kind"] == kind);
        found.map(|document| serde_json::from_value(document.clone()).unwrap()).collect()
    }

    /// Returns the only object of a kind.
    pub(crate) fn one<T: DeserializeOwned>(&self, kind: &str) -> T {
        let mut found = self.all(kind);
        assert_eq!(found.len(), 1, "{:?}: one {kind}", self.composition);
        found.remove(0)
    }

    /// Returns every webhook entry for pods, with the name of its configuration. The trust probe's
    /// entry has tests of its own.
    pub(crate) fn entries(&self) -> Vec<(String, MutatingWebhook)> {
        let configurations: Vec<MutatingWebhookConfiguration> =
            self.all("MutatingWebhookConfiguration");
        let entries = |configuration: MutatingWebhookConfiguration| {
            let name = configuration.metadata.name.unwrap();
            let entries = configuration.webhooks.unwrap().into_iter();
            let entries = entries.filter(|entry| !entry.name.starts_with("probe."));
            entries.map(move |entry| (name.clone(), entry)).collect::<Vec<_>>()
        };
        configurations.into_iter().flat_map(entries).collect()
    }

    pub(crate) fn has(&self, component: &str) -> bool {
        self.composition.components.contains(&component)
    }
}

/// Returns the renderings of the base, each component, and common compositions.
pub(crate) fn renderings() -> &'static [Rendering] {
    static RENDERINGS: LazyLock<Vec<Rendering>> = LazyLock::new(|| {
        let programs = Programs::find().unwrap();
        COMPOSITIONS.iter().map(|composition| render(&programs, *composition)).collect()
    });
    &RENDERINGS
}

/// Returns the rendering of a composition in the list.
pub(crate) fn rendering(composition: Composition) -> &'static Rendering {
    let found = renderings().iter().find(|rendering| rendering.composition == composition);
    found.unwrap_or_else(|| panic!("{composition:?} is not in the list of compositions"))
}

pub(crate) fn base() -> &'static Rendering {
    rendering(BASE)
}

fn render(programs: &Programs, composition: Composition) -> Rendering {
    let documents = split(&composition.render(programs).unwrap());
    Rendering { composition, documents }
}

/// Returns the renderings of the whole mesh with the components of its control plane.
pub(crate) fn mesh_renderings() -> &'static [Rendering] {
    static RENDERINGS: LazyLock<Vec<Rendering>> = LazyLock::new(|| {
        let programs = Programs::find().unwrap();
        let compositions = [
            Composition::new(&["mesh-prometheus", "mesh-grafana"]),
            Composition::new(&["mesh-prometheus-pods", "mesh-ha"]),
            Composition {
                components: &["mesh-prometheus", "mesh-revision"],
                tags: &["prod", "pre-prod"],
                ..CANARY
            },
        ];
        let render = |composition: Composition| {
            let text = composition.render_over(&programs, "mesh").unwrap();
            Rendering { composition, documents: split(&text) }
        };
        compositions.map(render).into()
    });
    &RENDERINGS
}

pub(crate) const BASE: Composition = Composition::new(&[]);
pub(crate) const AUTO: Composition = Composition::new(&["auto"]);
pub(crate) const CANARY: Composition =
    Composition { components: &["revision"], revision: Some("canary"), tags: &[] };
pub(crate) const TAGGED: Composition = Composition { tags: &["prod", "pre-prod"], ..CANARY };
pub(crate) const DEFAULT_TAG: Composition =
    Composition { components: &["revision", "default-tag"], ..CANARY };
pub(crate) const AUTO_DEFAULT_TAG: Composition =
    Composition { components: &["auto", "revision", "default-tag"], tags: &["prod"], ..CANARY };
pub(crate) const DORMANT: Composition = Composition::new(&["dormant"]);
pub(crate) const KUBE_SYSTEM: Composition = Composition::new(&["kube-system", "auto"]);
pub(crate) const ISTIOD: Composition = Composition::new(&["istiod"]);
pub(crate) const AUTO_ISTIOD: Composition = Composition::new(&["auto", "istiod"]);
pub(crate) const FILES: Composition = Composition::new(&["files"]);
pub(crate) const CERT_MANAGER: Composition = Composition::new(&["cert-manager"]);

/// Optional features, with a revision.
const FEATURES: Composition = Composition {
    components: &[
        "kube-system",
        "prometheus",
        "trust-probe",
        "reports",
        "revision",
        "client-certificates",
    ],
    ..CANARY
};
const COMPOSITIONS: [Composition; 45] = [
    BASE,
    AUTO,
    CANARY,
    TAGGED,
    DEFAULT_TAG,
    AUTO_DEFAULT_TAG,
    DORMANT,
    KUBE_SYSTEM,
    ISTIOD,
    FILES,
    CERT_MANAGER,
    Composition::new(&["aks"]),
    Composition::new(&["client-certificates"]),
    Composition::new(&["cni"]),
    Composition::new(&["istio-cni"]),
    Composition::new(&["csr"]),
    Composition::new(&["csr", "csr-approval"]),
    Composition::new(&["fail-open"]),
    Composition::new(&["grafana"]),
    Composition::new(&["ha"]),
    Composition::new(&["network-policy"]),
    Composition::new(&["no-create"]),
    Composition::new(&["no-guard-policy"]),
    Composition::new(&["no-namespace"]),
    Composition::new(&["openshift"]),
    Composition::new(&["prometheus"]),
    Composition::new(&["prometheus-pods", "proxies-prometheus"]),
    Composition { components: &["prometheus-pods", "revision"], ..CANARY },
    Composition::new(&["reports"]),
    Composition::new(&["require-injection"]),
    Composition::new(&["trust-probe"]),
    Composition { tags: &["prod"], ..BASE },
    Composition { tags: &["prod"], ..Composition::new(&["files", "ha"]) },
    Composition::new(&["auto", "cert-manager", "ha", "network-policy", "fail-open"]),
    Composition::new(&["istiod", "no-create", "ha", "prometheus", "no-guard-policy", "fail-open"]),
    Composition { components: &["istiod", "revision"], revision: Some("1-28"), tags: &[] },
    AUTO_ISTIOD,
    Composition::new(&["auto", "istiod", "trust-probe", "dormant"]),
    Composition { components: &["cni", "revision", "default-tag", "dormant"], ..CANARY },
    Composition { components: &["openshift", "network-policy", "revision"], ..CANARY },
    Composition { components: &["ha", "cert-manager", "istio-cni", "revision"], ..CANARY },
    Composition { tags: &["prod"], ..FEATURES },
    Composition { components: &["ha", "revision", "csr"], tags: &["prod"], ..CANARY },
    Composition { components: &["require-injection", "revision", "no-guard-policy"], ..CANARY },
    Composition {
        components: &[
            "ha",
            "cni",
            "no-create",
            "network-policy",
            "prometheus",
            "grafana",
            "revision",
            "no-guard-policy",
            "default-tag",
            "aks",
            "fail-open",
        ],
        ..CANARY
    },
];

pub(crate) fn documents(file: &str) -> Vec<Value> {
    split(&fs::read_to_string(manifests().join(file)).unwrap())
}

pub(crate) fn split(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|document| documents::yaml::parse(document).unwrap()).collect()
}

/// Returns a document as its type serialises it, without unknown fields.
pub(crate) fn retyped<T: DeserializeOwned + Serialize>(document: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(document.clone()).unwrap()).unwrap()
}

pub(crate) fn manifests() -> PathBuf {
    repository().join("manifests")
}

/// True if a label selector matches as in the API server.
pub(crate) fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let label = |key: &str| labels.get(key).map(String::as_str);
    let equal =
        selector.match_labels.iter().flatten().all(|(key, value)| label(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let value = label(&requirement.key);
            let listed = requirement.values.iter().flatten().any(|one| value == Some(one));
            match requirement.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                operator => panic!("no such operator: {operator}"),
            }
        })
}

pub(crate) type Labels = BTreeMap<String, String>;
