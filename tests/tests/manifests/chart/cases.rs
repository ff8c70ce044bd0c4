//! Values of the chart beside the components of kustomize that do the same.

/// A folder with components, and values that install the same objects.
pub(super) struct Case {
    pub(super) folder: &'static str,
    /// In an order that works.
    pub(super) components: &'static [&'static str],
    pub(super) revision: Option<&'static str>,
    pub(super) tags: &'static [&'static str],
    /// Components that change the objects of tags as well.
    pub(super) over_tags: &'static [&'static str],
    pub(super) values: &'static str,
}

/// Components that no value of the chart stands for.
pub(super) const LEFT_OUT: &[&str] = &["istiod"];

const fn base(components: &'static [&'static str], values: &'static str) -> Case {
    Case { folder: "base", components, revision: None, tags: &[], over_tags: &[], values }
}

const fn mesh(components: &'static [&'static str], values: &'static str) -> Case {
    Case { folder: "mesh", ..base(components, values) }
}

/// The base as another revision.
const fn canary(components: &'static [&'static str], values: &'static str) -> Case {
    Case { revision: Some("canary"), ..base(components, values) }
}

pub(super) const CASES: &[Case] = &[
    mesh(&["no-namespace"], "{}"),
    base(&[], "{}"),
    canary(&["revision"], "{}"),
    base(&["ha"], r#"{"injector": {"highAvailability": true}}"#),
    base(&["files"], r#"{"injector": {"certificates": {"provider": "files"}}}"#),
    base(&["cert-manager"], r#"{"injector": {"certificates": {"provider": "cert-manager"}}}"#),
    base(&["csr"], r#"{"injector": {"certificates": {"provider": "csr"}}}"#),
    base(
        &["csr", "csr-approval"],
        r#"{"injector": {"certificates": {"provider": "csr", "approve": true}}}"#,
    ),
    base(&["no-create"], r#"{"injector": {"certificates": {"emptySecret": true}}}"#),
    base(&["istio-cni"], r#"{"pilot": {"cni": {"enabled": true}}}"#),
    base(
        &["cni"],
        r#"{"pilot": {"cni": {"enabled": true}}, "outrigger": {"captureRequest": "write"}}"#,
    ),
    base(&["openshift"], r#"{"global": {"platform": "openshift"}}"#),
    base(&["network-policy"], r#"{"networkPolicy": {"restrictEgress": true}}"#),
    base(&["prometheus"], r#"{"prometheus": {"enabled": true}}"#),
    base(&["prometheus-pods"], r#"{"prometheus": {"enabled": true, "monitor": "PodMonitor"}}"#),
    base(&["proxies-prometheus"], r#"{"prometheus": {"proxies": true}}"#),
    base(&["grafana"], r#"{"grafana": {"enabled": true}}"#),
    base(&["kube-system"], r#"{"sidecarInjectorWebhook": {"includeKubeSystem": true}}"#),
    base(&["trust-probe"], r#"{"injector": {"trustProbe": true}}"#),
    base(&["reports"], r#"{"injector": {"reports": true}}"#),
    base(&["require-injection"], r#"{"injector": {"requireInjection": true}}"#),
    base(&["auto"], r#"{"sidecarInjectorWebhook": {"enableNamespacesByDefault": true}}"#),
    base(&["no-guard-policy"], r#"{"injector": {"guardPolicies": false}}"#),
    base(&["client-certificates"], r#"{"injector": {"clientCertificates": {"enabled": true}}}"#),
    base(&["aks"], r#"{"global": {"platform": "aks"}}"#),
    base(&["fail-open"], r#"{"sidecarInjectorWebhook": {"failurePolicy": "Ignore"}}"#),
    base(&["dormant"], r#"{"dormant": true}"#),
    Case { tags: &["prod"], ..base(&[], r#"{"revisionTags": ["prod"]}"#) },
    mesh(
        &["prometheus", "mesh-prometheus", "trust-probe", "reports", "runbooks"],
        r#"{
            "prometheus": {"enabled": true, "runbookUrl": "https://docs.example.com/alerts.html"},
            "injector": {"trustProbe": true, "reports": true}
        }"#,
    ),
    Case {
        revision: Some("canary"),
        ..mesh(
            &[
                "ha",
                "mesh-ha",
                "prometheus-pods",
                "mesh-prometheus-pods",
                "grafana",
                "mesh-grafana",
                "mesh-revision",
            ],
            r#"{
                "injector": {"highAvailability": true},
                "pilot": {"autoscaleEnabled": true},
                "prometheus": {"enabled": true, "monitor": "PodMonitor"},
                "grafana": {"enabled": true}
            }"#,
        )
    },
    Case {
        revision: Some("canary"),
        tags: &["prod", "pre-prod"],
        over_tags: &["aks", "dormant"],
        ..mesh(
            &[
                "ha",
                "network-policy",
                "prometheus",
                "mesh-prometheus",
                "kube-system",
                "trust-probe",
                "reports",
                "require-injection",
                "auto",
                "mesh-revision",
                "client-certificates",
                "default-tag",
            ],
            r#"{
                "revisionTags": ["prod", "default", "pre-prod"],
                "dormant": true,
                "global": {"platform": "aks"},
                "networkPolicy": {"restrictEgress": true},
                "prometheus": {"enabled": true},
                "sidecarInjectorWebhook":
                    {"includeKubeSystem": true, "enableNamespacesByDefault": true},
                "injector": {
                    "highAvailability": true, "trustProbe": true, "reports": true,
                    "requireInjection": true, "clientCertificates": {"enabled": true}
                }
            }"#,
        )
    },
    base(
        &["ha", "cert-manager", "network-policy", "auto", "aks", "fail-open"],
        r#"{
            "global": {"platform": "aks"},
            "networkPolicy": {"restrictEgress": true},
            "injector": {"highAvailability": true, "certificates": {"provider": "cert-manager"}},
            "sidecarInjectorWebhook":
                {"failurePolicy": "Ignore", "enableNamespacesByDefault": true}
        }"#,
    ),
    canary(
        &["ha", "cert-manager", "istio-cni", "revision"],
        r#"{
            "injector": {"highAvailability": true, "certificates": {"provider": "cert-manager"}},
            "pilot": {"cni": {"enabled": true}}
        }"#,
    ),
    Case {
        tags: &["prod"],
        over_tags: &["fail-open"],
        ..canary(
            &[
                "openshift",
                "network-policy",
                "require-injection",
                "no-guard-policy",
                "revision",
                "csr",
                "csr-approval",
            ],
            r#"{
                "revisionTags": ["prod"],
                "global": {"platform": "openshift"},
                "networkPolicy": {"restrictEgress": true},
                "injector": {
                    "guardPolicies": false, "requireInjection": true,
                    "certificates": {"provider": "csr", "approve": true}
                },
                "sidecarInjectorWebhook": {"failurePolicy": "Ignore"}
            }"#,
        )
    },
];
