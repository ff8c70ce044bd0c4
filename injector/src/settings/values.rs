//! The `values` document of the ConfigMap `istio-sidecar-injector`.

use std::collections::BTreeMap;

use documents::notice::{self, Oddity};
use documents::nulls::or_default;
use documents::typed::typed;
use documents::unknown_keys::unknown_keys;
use documents::{kubernetes_object, yaml};
use serde::Deserialize;
use serde_json::Value;

use super::outrigger::{self, Outrigger};
use super::scalars::{Switch, Text};
use super::{annotations, known_keys, value_images};

/// The Helm values that shape pods. Names are those of Istio's chart.
///
/// An absent key has the value of [`Values::default`]: Istio's chart default with the images that
/// `manifests/base` names too. A `null` key is empty. Unknown keys are accepted.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Values {
    /// `gateways`.
    #[serde(default)]
    pub gateways: Gateways,
    /// `global`.
    #[serde(default)]
    pub global: Global,
    /// `outrigger`.
    #[serde(default, deserialize_with = "or_default")]
    pub outrigger: Outrigger,
    /// `pilot`.
    #[serde(default)]
    pub pilot: Pilot,
    /// `revision` of the installation; empty for the default revision.
    #[serde(default)]
    pub revision: Text,
    /// `sidecarInjectorWebhook`.
    #[serde(default, rename = "sidecarInjectorWebhook")]
    pub sidecar_injector_webhook: SidecarInjectorWebhook,
    /// The original document for templates; the defaults if there was none.
    #[serde(skip)]
    pub document: Value,
    /// Ignored or suspicious parts of the document.
    #[serde(skip)]
    odd: Vec<Oddity>,
}

impl Values {
    /// Parses the document, JSON or YAML.
    pub fn parse(text: &str) -> Result<Self, String> {
        let defaults = yaml::parse(DEFAULTS).map_err(|error| error.to_string())?;
        let (document, repeated) = notice::read(text).map_err(|error| error.to_string())?;
        kubernetes_object::refuse(&document, "values")?;
        if !matches!(document, Value::Object(_) | Value::Null) {
            // The text may be that of another file, such as a key.
            return Err("expected a mapping with the chart's values".to_owned());
        }
        let given = if document.is_null() { defaults.clone() } else { document.clone() };
        let mut odd = annotations::check_values(&given)?;
        odd.extend(repeated);
        if let Some(own) = given["outrigger"].as_object() {
            outrigger::check_keys(own)?;
        }
        let values: Self = typed(over(defaults, document, ""))?;
        value_images::check(&values.global)?;
        Ok(Self { document: given, odd, ..values })
    }

    /// Returns the suspicious parts of the document: keys that neither the chart knows nor one of
    /// the templates names.
    pub(super) fn oddities(&self, templates: &BTreeMap<String, String>) -> Vec<Oddity> {
        let unknown = unknown_keys(&self.document, known_keys::VALUES).into_iter();
        let is_named = |path: &str| {
            let name = path.rsplit('.').next().unwrap_or(path);
            templates.values().any(|template| template.contains(name))
        };
        let unknown = unknown.filter(|key| !is_named(&key.path)).map(notice::unknown);
        unknown.chain(self.odd.iter().cloned()).collect()
    }

    /// Returns the notice that `lifecycle` replaces the hook for which `hold` asks, in the values or
    /// in the mesh configuration.
    pub(super) fn canceled_hold(&self, by_mesh: bool) -> Option<Oddity> {
        let Proxy { hold_application_until_proxy_starts: hold, .. } = &self.global.proxy;
        let is_canceled = (hold.on() || by_mesh) && self.global.proxy.lacks_post_start();
        is_canceled.then(|| ("global.proxy.lifecycle".to_owned(), NO_POST_START.to_owned()))
    }
}

impl Default for Values {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "the embedded document is covered by a test")]
        Self::parse("").expect("the embedded values parse")
    }
}

/// `gateways`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct Gateways {
    pub security_context: Value,
}

/// `global`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct Global {
    pub ca_address: Text,
    pub ca_name: Text,
    pub hub: Text,
    pub image_pull_policy: Text,
    #[serde(deserialize_with = "or_default")]
    pub image_pull_secrets: Vec<Text>,
    pub istio_namespace: Text,
    pub log_as_json: Switch,
    pub logging: Logging,
    #[serde(rename = "meshID")]
    pub mesh_id: Text,
    pub mount_mtls_certs: Switch,
    pub multi_cluster: MultiCluster,
    pub native_nftables: Switch,
    pub network: Text,
    pub pilot_cert_provider: Text,
    pub proxy: Proxy,
    #[serde(rename = "proxy_init")]
    pub proxy_init: ProxyInit,
    pub sds: Sds,
    pub sts: Sts,
    pub tag: Text,
    pub trust_bundle_name: Text,
    pub trust_domain: Text,
    pub variant: Text,
}

/// `global.proxy`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct Proxy {
    pub cap_net_bind_service: Text,
    pub cluster_domain: Text,
    pub component_log_level: Text,
    #[serde(rename = "excludeIPRanges")]
    pub exclude_ip_ranges: Text,
    pub exclude_inbound_ports: Text,
    pub exclude_outbound_ports: Text,
    pub hold_application_until_proxy_starts: Switch,
    pub image: Text,
    #[serde(rename = "includeIPRanges")]
    pub include_ip_ranges: Text,
    pub include_inbound_ports: Text,
    pub include_outbound_ports: Text,
    pub lifecycle: Value,
    pub log_level: Text,
    pub outlier_log_path: Text,
    pub privileged: Switch,
    pub readiness_failure_threshold: Text,
    pub readiness_initial_delay_seconds: Text,
    pub readiness_period_seconds: Text,
    pub resources: Value,
    pub seccomp_profile: Value,
    pub startup_probe: StartupProbe,
    pub status_port: Text,
    pub tracer: Text,
}

/// `global.proxy.startupProbe`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct StartupProbe {
    pub enabled: Switch,
    pub failure_threshold: Text,
}

/// `global.proxy_init`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct ProxyInit {
    pub force_apply_iptables: Switch,
    pub image: Text,
}

/// `global.logging`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct Logging {
    pub level: Text,
}

/// `global.multiCluster`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct MultiCluster {
    pub cluster_name: Text,
}

/// `global.sds`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct Sds {
    pub token: SdsToken,
}

/// `global.sds.token`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct SdsToken {
    pub aud: Text,
}

/// `global.sts`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct Sts {
    pub service_port: Text,
}

/// `pilot`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct Pilot {
    pub cni: Cni,
    pub crl_config_map_name: Text,
    pub env: Value,
}

/// `pilot.cni`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct Cni {
    pub enabled: Switch,
    pub provider: Text,
}

/// `sidecarInjectorWebhook`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are the chart's own names")]
pub struct SidecarInjectorWebhook {
    #[serde(rename = "rewriteAppHTTPProbe")]
    pub rewrite_app_http_probe: Switch,
}

impl Proxy {
    /// True if `lifecycle` replaces the hooks of injection and has no `postStart` of its own.
    pub(crate) fn lacks_post_start(&self) -> bool {
        let given = self.lifecycle.as_object().filter(|hooks| !hooks.is_empty());
        given.is_some_and(|hooks| hooks.get("postStart").is_none_or(Value::is_null))
    }
}

/// Merges the document over the defaults, mapping by mapping. A mapping that is passed to
/// Kubernetes unchanged replaces the default as a whole.
fn over(below: Value, above: Value, key: &str) -> Value {
    match (below, above) {
        (Value::Object(mut below), Value::Object(above)) if !VERBATIM.contains(&key) => {
            for (key, value) in above {
                let default = below.remove(&key);
                // A null key without a default is the same as an absent key.
                if default.is_some() || !value.is_null() {
                    let merged = over(default.unwrap_or_default(), value, &key);
                    below.insert(key, merged);
                }
            }
            Value::Object(below)
        }
        (below, Value::Null) if key.is_empty() => below,
        (Value::Object(_), Value::Null) if !VERBATIM.contains(&key) => serde_json::json!({}),
        (_, above) => above,
    }
}

const VERBATIM: [&str; 5] = ["env", "lifecycle", "resources", "seccompProfile", "securityContext"];

const NO_POST_START: &str = "without postStart, the application does not wait for a proxy that is no native sidecar, \
     although holdApplicationUntilProxyStarts is true; hint: add postStart: {exec: {command: \
     [pilot-agent, wait]}}";

const DEFAULTS: &str = include_str!("defaults/values.yaml");

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outrigger_settings_may_be_empty_but_not_misspelt() {
        for text in ["outrigger:", "outrigger: null", "outrigger: {}", "global: {}"] {
            assert_eq!(Values::parse(text).unwrap().outrigger, Outrigger::default(), "{text}");
        }
        let error = Values::parse("outrigger: {cpuLimit: omit}").unwrap_err();
        assert_eq!(error, "outrigger.cpuLimit: unknown key; did you mean cpuLimits?");
        let error = Values::parse("outrigger: {somethingElse: 1}").unwrap_err();
        assert!(
            error.contains("outrigger.somethingElse: unknown field `somethingElse`, expected"),
            "{error}"
        );
        assert!(error.contains("`proxyUser`"), "{error}");
    }

    #[test]
    fn absent_values_have_their_defaults() {
        let values = Values::parse(
            "global: {tag: 1.28, proxy: {statusPort: 0, resources: {limits: {cpu: 1}}}}",
        )
        .unwrap();
        assert_eq!(&*values.global.tag, "1.28");
        assert_eq!(&*values.global.hub, "docker.io/istio");
        assert_eq!(&*values.global.proxy.status_port, "0");
        assert_eq!(values.global.proxy.resources, json!({"limits": {"cpu": 1}}));
        assert!(values.sidecar_injector_webhook.rewrite_app_http_probe.on());
    }

    #[test]
    fn default_images_are_pinned_and_init_image_is_ours() {
        let global = Values::default().global;
        let proxy = format!("{}/{}:{}", &*global.hub, &*global.proxy.image, &*global.tag);
        assert_eq!(proxy, "docker.io/istio/proxyv2:1.28.0");
        let init = concat!("localhost/outrigger/istio-init:", env!("CARGO_PKG_VERSION"));
        assert_eq!(&*global.proxy_init.image, init);
    }

    #[test]
    fn null_values_count_as_empty() {
        let nulls = "global: {imagePullSecrets: null, proxy: {resources: null, logLevel: null}}";
        let global = Values::parse(nulls).unwrap().global;
        assert!(global.image_pull_secrets.is_empty() && global.proxy.log_level.is_empty());
        assert_eq!(global.proxy.resources, Value::Null);
        assert_eq!(Values::parse("pilot: null").unwrap().pilot, Pilot::default());
    }

    #[test]
    fn values_errors_name_the_key() {
        for (text, expected) in [
            (
                "global: {proxy: {privileged: perhaps}}",
                "global.proxy.privileged: \"perhaps\" where true or false is expected",
            ),
            (
                "global: {sds: {token: x}}",
                "global.sds.token: string \"x\" where a mapping is expected",
            ),
            ("revision: []", "revision: [] where text is expected"),
            ("-----BEGIN PRIVATE KEY-----", "expected a mapping with the chart's values"),
        ] {
            let error = Values::parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn lenient_values_are_accepted_with_a_warning() {
        let lists = "excludeInboundPorts: 8000-8010, excludeIPRanges: 10.0.0.1";
        let values = Values::parse(&format!("global: {{hub: a, hub: b, proxy: {{{lists}}}}}"));
        let (hub, odd) =
            values.map(|v| (v.global.hub.clone(), v.oddities(&BTreeMap::new()))).unwrap();
        assert_eq!((&*hub, odd.len()), ("b", 2), "{odd:?}");
        assert_eq!((&*odd[0].0, &*odd[1].0), ("global.proxy.excludeIPRanges", "line 1"));
    }

    #[test]
    fn unknown_values_keys_get_a_warning_unless_templates_use_them() {
        let values = Values::parse("global: {suffix: x, proxy: {logLevl: debug}, hub: h}").unwrap();
        let oddity = |path: &str, problem: &str| (path.to_owned(), problem.to_owned());
        let misspelt = oddity("global.proxy.logLevl", "unknown key; did you mean logLevel?");
        let all = [misspelt.clone(), oddity("global.suffix", "unknown key")];
        assert_eq!(values.oddities(&BTreeMap::new()), all);
        let template = "{{ .Values.global.suffix }}".to_owned();
        let templates = BTreeMap::from([("custom".to_owned(), template)]);
        assert_eq!(values.oddities(&templates), [misspelt]);
        assert_eq!(Values::default().oddities(&BTreeMap::new()), []);
    }
}
