//! Warnings about labels and annotations of a pod that do not prevent its injection.

use documents::{excerpt, suggest};
use reason::{Reason, words};
use serde_json::{Map, Value};

use super::MOST_KEYS;
use super::ineffective::RETIRED;
use crate::inject::policy;
use crate::istio::{labels, scrape_settings};
use crate::kubernetes::pod_schema::PodList;
use crate::kubernetes::quantity;
use crate::settings::annotation_json;
use crate::settings::annotation_kind::switch;
use crate::settings::annotations::{Annotations, HONOURED, key};

/// Returns all warnings about an injected pod, in the order of the keys.
pub fn pod_warnings(pod: &Value, annotations: Annotations<'_>) -> Vec<Reason> {
    let mut warnings = key_warnings(pod);
    for (key, words) in WORDS {
        warnings.extend(annotations.get(key).and_then(|value| unknown_word(key, value, words)));
    }
    warnings.extend(REQUESTS.iter().filter_map(|pair| beyond_limit(annotations, pair)));
    warnings.extend(annotations.get(key::SCRAPE_TARGETS).and_then(unknown_targets));
    warnings.extend(unknown_fields(annotations));
    warnings.extend(dns_policy(&pod["spec"]["dnsPolicy"]));
    warnings
}

/// Returns the warnings that do not depend on the injection decision: an invalid value of
/// `sidecar.istio.io/inject`, and misspelt keys.
pub fn key_warnings(pod: &Value) -> Vec<Reason> {
    let mut warnings: Vec<_> = policy::unknown_switch(pod).into_iter().collect();
    for place in [&LABEL, &ANNOTATION] {
        let entries = pod["metadata"][place.list].as_object();
        let keys = entries.into_iter().flat_map(Map::keys);
        let known: Vec<_> = place.known().collect();
        let mut odd = keys.filter_map(|key| place.misspelt(key, &known));
        warnings.extend(odd.by_ref().take(MOST_KEYS));
        if odd.next().is_some() {
            let message = format!("the pod has further {} unknown to the injector", place.list);
            let hint = format!("correct the first {MOST_KEYS} to see the others");
            warnings.push(Reason::new(words::UNKNOWN_KEY, message).with_hint(hint));
        }
    }
    warnings
}

/// Warns about an unknown value of an annotation. Istio does not validate it and ignores such a
/// value.
fn unknown_word(key: &str, value: &str, words: &[&str]) -> Option<Reason> {
    let understood = match key {
        key::REWRITE_APP_PROBES => switch(value).is_some(),
        _ => value.is_empty() || words.contains(&value),
    };
    if understood {
        return None;
    }
    let given = excerpt::shorten(value);
    let message = format!("annotation {key} of the pod has the invalid value {given:?}");
    let hint = match suggest::among(value, words) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("use {}", words.join(" or ")),
    };
    Some(Reason::new(words::UNKNOWN_VALUE, message).with_hint(hint))
}

/// Warns about a request above its limit, both set by annotations of the pod. Kubernetes rejects
/// such a pod with an error about containers that the user did not write.
fn beyond_limit(annotations: Annotations<'_>, [request, limit]: &[&str; 2]) -> Option<Reason> {
    let (value, most) = (annotations.get(request)?, annotations.get(limit)?);
    let amount = |text: &str| quantity::parse(&Value::from(text));
    let beyond = amount(value).zip(amount(most)).is_some_and(|(value, most)| value > most);
    beyond.then(|| {
        let message = format!(
            "annotation {request} of the pod is {value:?}, above the limit, which annotation \
             {limit} sets to {most:?}; Kubernetes will reject the pod"
        );
        Reason::new(words::REQUEST_ABOVE_LIMIT, message)
    })
}

/// Annotations for requests, each with the annotation for its limit.
const REQUESTS: [[&str; 2]; 4] = [
    [key::PROXY_CPU, key::PROXY_CPU_LIMIT],
    [key::PROXY_MEMORY, key::PROXY_MEMORY_LIMIT],
    [key::INIT_CPU, key::INIT_CPU_LIMIT],
    [key::INIT_MEMORY, key::INIT_MEMORY_LIMIT],
];

/// Warns about fields of JSON annotations that no known version of Kubernetes has. The API server
/// drops a field that it does not know.
fn unknown_fields(annotations: Annotations<'_>) -> impl Iterator<Item = Reason> {
    let lists =
        [(key::USER_VOLUME, PodList::Volume), (key::USER_VOLUME_MOUNT, PodList::VolumeMount)];
    lists.into_iter().filter_map(move |(key, list)| {
        let value = annotations.get(key)?;
        let field = annotation_json::fields_that_may_be_new(list, value).into_iter().next()?;
        let field = excerpt::shorten(&field);
        let message = format!("annotation {key} of the pod has the unknown field {field}");
        Some(Reason::new(words::UNKNOWN_FIELD, message))
    })
}

/// Warns about invalid scrape targets, which the injector ignores, as Istio does.
fn unknown_targets(targets: &str) -> Option<Reason> {
    (!scrape_settings::are_targets(targets)).then(|| {
        let (key, targets) = (key::SCRAPE_TARGETS, excerpt::shorten(targets));
        let message = format!("annotation {key} of the pod has the invalid value {targets:?}");
        Reason::new(words::UNKNOWN_VALUE, message)
            .with_hint("use a list such as 8080:/metrics,9090")
    })
}

fn dns_policy(policy: &Value) -> Option<Reason> {
    let policy = policy.as_str().filter(|policy| !["", "ClusterFirst"].contains(policy))?;
    let message =
        format!("dnsPolicy of the pod is {policy:?}: the proxy may not find the control plane");
    Some(Reason::new(words::DNS_POLICY, message))
}

/// Labels or annotations of a pod.
struct KeyLocation {
    list: &'static str,
    article: &'static str,
    word: &'static str,
    other: &'static str,
}

const LABEL: KeyLocation =
    KeyLocation { list: "labels", article: "a", word: "label", other: "annotation" };
const ANNOTATION: KeyLocation =
    KeyLocation { list: "annotations", article: "an", word: "annotation", other: "label" };

impl KeyLocation {
    /// Returns the keys that are known as labels or as annotations.
    fn known(&self) -> impl Iterator<Item = &'static str> {
        let is_label = self.word == LABEL.word;
        let retired = RETIRED.iter().map(|(key, _)| *key);
        let annotations =
            HONOURED.iter().map(|honoured| honoured.key).chain(ANNOTATIONS).chain(retired);
        labels::of_pods().filter(move |_| is_label).chain(annotations.filter(move |_| !is_label))
    }

    /// Warns about an unknown key that resembles one of Istio's, or that is known only in the other
    /// list.
    fn misspelt(&self, given: &str, known: &[&'static str]) -> Option<Reason> {
        let lowered = given.to_lowercase();
        let ours = ["istio", "outrigger"].iter().any(|name| lowered.contains(name));
        if !ours || known.contains(&given) {
            return None;
        }
        let Self { word, article, other, .. } = self;
        let there = if self.word == LABEL.word { &ANNOTATION } else { &LABEL };
        if there.known().any(|known| known == given) {
            let message = format!("{word} {given} of the pod has no effect as {article} {word}");
            let hint = format!("use the {other} of that name");
            return Some(Reason::new(words::MISPLACED_KEY, message).with_hint(hint));
        }
        let meant = known.iter().copied().find(|known| same_name(given, known));
        let meant = meant.or_else(|| suggest::among(given, known))?;
        let message = format!("{word} {given} of the pod is unknown to the injector");
        let hint = format!("did you mean {meant}?");
        Some(Reason::new(words::UNKNOWN_KEY, message).with_hint(hint))
    }
}

/// True if two keys differ only in domain and letter case.
fn same_name(a: &str, b: &str) -> bool {
    let name = |key| str::split_once(key, '/').map(|(_, name)| name);
    let Some((a, b)) = name(a).zip(name(b)) else { return false };
    // These names are ambiguous: several keys end in them.
    let several = ["port", "config"].iter().any(|name| a.eq_ignore_ascii_case(name));
    !several && a.eq_ignore_ascii_case(b)
}

/// Annotations with a fixed set of values that Istio does not validate.
const WORDS: [(&str, &[&str]); 3] = [
    (key::NATIVE_SIDECAR, &["true", "false"]),
    (key::CAP_NET_BIND_SERVICE, &["true", "false"]),
    (key::REWRITE_APP_PROBES, &["true", "false"]),
];

/// Istio's annotations that the injector does not use itself.
const ANNOTATIONS: [&str; 15] = [
    "ambient.istio.io/bypass-inbound-capture",
    "ambient.istio.io/dns-capture",
    "ambient.istio.io/redirection",
    "galley.istio.io/analyze-suppress",
    "gateway.istio.io/controller-version",
    "gateway.istio.io/name-override",
    "gateway.istio.io/service-account",
    "install.operator.istio.io/chart-owner",
    "istio.io/dry-run",
    "istio.io/workload-controller",
    "networking.istio.io/exportTo",
    "networking.istio.io/service-type",
    "networking.istio.io/traffic-distribution",
    "networking.istio.io/tunnel",
    "topology.istio.io/controlPlaneClusters",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all_warnings(labels: &Value, annotations: &Value, spec: &Value) -> Vec<String> {
        let pod = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
        let read = Annotations::from_pod(&pod).0;
        pod_warnings(&pod, read).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn misspelt_keys_get_a_warning() {
        for (label, hint) in [
            ("sidecar.istio.io/injct", "did you mean sidecar.istio.io/inject?"),
            ("sidecar.istio.oi/inject", "did you mean sidecar.istio.io/inject?"),
            ("istio.io/inject", "did you mean sidecar.istio.io/inject?"),
            ("istio.io/revision", ""),
            ("sidecar.istio.io/proxyCPU", "use the annotation"),
            ("example.org/inject", ""),
            ("service.istio.io/canonical-name", ""),
        ] {
            let warnings = all_warnings(&json!({label: "true"}), &json!({}), &json!({}));
            assert_eq!(warnings.is_empty(), hint.is_empty(), "{label}: {warnings:?}");
            assert!(warnings.iter().all(|warning| warning.contains(hint)), "{label}: {warnings:?}");
        }
        for (annotation, hint) in [
            ("sidecar.istio.io/proxyCpu", "did you mean sidecar.istio.io/proxyCPU?"),
            (
                "sidecar.istio.io/excludeOutboundPorts",
                "did you mean traffic.sidecar.istio.io/excludeOutboundPorts?",
            ),
            (
                "traffic.sidecar.istio.io/excludeOutboundPort",
                "did you mean traffic.sidecar.istio.io/excludeOutboundPorts?",
            ),
            ("proxy.istio.io/configs", "did you mean proxy.istio.io/config?"),
            ("service.istio.io/canonical-name", "use the label"),
            ("sidecar.outrigger.io/initCpu", "did you mean sidecar.outrigger.io/initCPU?"),
            ("sidecar.istio.io/status", ""),
            ("traffic.sidecar.istio.io/includeOutboundPorts", ""),
            ("istio.io/rev", ""),
            ("mine.istio.io/other", ""),
        ] {
            let warnings = all_warnings(&json!({}), &json!({annotation: "1"}), &json!({}));
            assert_eq!(warnings.is_empty(), hint.is_empty(), "{annotation}: {warnings:?}");
            assert!(
                warnings.iter().all(|warning| warning.contains(hint)),
                "{annotation}: {warnings:?}"
            );
        }
    }

    #[test]
    fn warnings_about_unknown_keys_are_limited() {
        let odd = |n: usize| (format!("istio.io{n}/proxyCPU"), Value::from("1"));
        let annotations: Map<_, _> = (0..2000).map(odd).collect();
        let warnings = all_warnings(&json!({}), &annotations.into(), &json!({}));
        assert_eq!(warnings.len(), MOST_KEYS + 1);
        assert_eq!(
            warnings[MOST_KEYS],
            "the pod has further annotations unknown to the injector (unknown_key); hint: correct the first 24 to see the others"
        );
    }

    #[test]
    fn unknown_annotation_values_get_a_warning() {
        let annotations = |value: &str| json!({key::NATIVE_SIDECAR: value});
        assert!(all_warnings(&json!({}), &annotations("true"), &json!({})).is_empty());
        assert_eq!(
            all_warnings(&json!({}), &annotations("fasle"), &json!({})),
            [
                "annotation sidecar.istio.io/nativeSidecar of the pod has the invalid value \"fasle\" (unknown_value); hint: did you mean false?"
            ]
        );
        let rewrite = |value: &str| json!({key::REWRITE_APP_PROBES: value});
        assert!(all_warnings(&json!({}), &rewrite("T"), &json!({})).is_empty());
        assert!(
            all_warnings(&json!({}), &rewrite("no"), &json!({}))[0].contains("use true or false")
        );
    }

    #[test]
    fn other_dns_policy_gets_a_warning() {
        let of_policy =
            |policy: &str| all_warnings(&json!({}), &json!({}), &json!({"dnsPolicy": policy}));
        assert!(of_policy("ClusterFirst").is_empty());
        assert!(of_policy("Default")[0].starts_with("dnsPolicy of the pod is \"Default\""));
    }
}
