//! Fields of other projects' resources that the components use, from their definitions:
//! cert-manager.io/v1 and monitoring.coreos.com/v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Custom<S> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: S,
}

/// cert-manager.io/v1 `Certificate`
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CertificateSpec {
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "isCA")]
    pub(crate) is_ca: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) common_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dns_names: Option<Vec<String>>,
    pub(crate) secret_name: String,
    pub(crate) duration: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) renew_before: Option<String>,
    pub(crate) private_key: PrivateKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usages: Option<Vec<String>>,
    pub(crate) issuer_ref: IssuerRef,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PrivateKey {
    pub(crate) algorithm: String,
    pub(crate) size: u32,
    pub(crate) rotation_policy: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IssuerRef {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// cert-manager.io/v1 `Issuer`
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct IssuerSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) self_signed: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<CaIssuer>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CaIssuer {
    pub(crate) secret_name: String,
}

/// monitoring.coreos.com/v1 `ServiceMonitor`
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ServiceMonitorSpec {
    pub(crate) selector: LabelSelector,
    pub(crate) target_labels: Vec<String>,
    pub(crate) endpoints: Vec<Endpoint>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Endpoint {
    pub(crate) port: String,
    pub(crate) path: String,
    pub(crate) interval: String,
}

/// monitoring.coreos.com/v1 `PodMonitor`
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PodMonitorSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job_label: Option<String>,
    pub(crate) selector: LabelSelector,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace_selector: Option<NamespaceSelector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod_target_labels: Option<Vec<String>>,
    pub(crate) pod_metrics_endpoints: Vec<PodEndpoint>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespaceSelector {
    pub(crate) any: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PodEndpoint {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    pub(crate) interval: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) relabelings: Option<Vec<Relabeling>>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Relabeling {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<String>,
    pub(crate) source_labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target_label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) regex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replacement: Option<String>,
}

/// monitoring.coreos.com/v1 `PrometheusRule`
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PrometheusRuleSpec {
    pub(crate) groups: Vec<RuleGroup>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleGroup {
    pub(crate) name: String,
    pub(crate) rules: Vec<AlertRule>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlertRule {
    pub(crate) alert: String,
    pub(crate) expr: String,
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub(crate) lasts: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
}
