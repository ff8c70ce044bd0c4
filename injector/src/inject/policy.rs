//! Decision to inject a pod, or the reason to skip it.

use reason::words::Word;
use reason::{Reason, words};
use serde_json::Value;

use crate::istio::labels::{INJECT, REVISION};
use crate::kubernetes::windows::windows_field;
use crate::settings::Settings;
use crate::settings::inject_config::{InjectConfig, Policy};
use crate::settings::outrigger::{Outrigger, PodRevision};

/// Result of the injection decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// The pod is injected.
    Inject,
    /// The pod stays unchanged.
    Skip(Reason),
}

/// Set of rules for the injection decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rules {
    /// Rules of the webhook, and of `istioctl kube-inject` with a cluster's configuration: excluded
    /// namespaces, then policy and selectors of the configuration.
    Admission,
    /// Rules of `istioctl kube-inject` otherwise. The user asked for the injection, so policy and
    /// selectors do not apply; the pod's opt-out, namespace and host networking do.
    Manual,
}

/// Returns the reason to skip a pod, by the configuration or by the settings of revisions; `None`
/// if the pod is injected.
pub fn why_not(settings: &Settings, rules: Rules, pod: &Value, namespace: &str) -> Option<Reason> {
    match decide(&settings.inject, rules, pod, namespace) {
        Decision::Skip(reason) => Some(reason),
        Decision::Inject if rules == Rules::Admission => of_another_revision(settings, pod),
        Decision::Inject => None,
    }
}

/// Decides for one pod, in the order of Istio's `injectRequired`: host networking, Windows (a check
/// that Istio lacks), excluded namespaces, the pod's label and then its annotation
/// `sidecar.istio.io/inject`, `neverInjectSelector`, `alwaysInjectSelector`, policy. A pod that opts
/// out has that reason, even with host networking or on Windows.
pub fn decide(config: &InjectConfig, rules: Rules, pod: &Value, namespace: &str) -> Decision {
    let metadata = &pod["metadata"];
    let switch = Switch::from_metadata(metadata);
    let opts_out = matches!(switch, Switch::OffByLabel | Switch::OffByAnnotation);
    if pod["spec"]["hostNetwork"] == true && !opts_out {
        return Decision::Skip(Reason::new(
            words::HOST_NETWORK,
            "the pod uses the node's network, which must not be captured",
        ));
    }
    if let Some(field) = windows_field(&pod["spec"]).filter(|_| !opts_out) {
        let message = format!(
            "the pod's containers run on Windows, by spec.{field}; the proxy and the capture need \
             Linux"
        );
        return Decision::Skip(Reason::new(words::WINDOWS, message));
    }
    let namespace = match metadata["namespace"].as_str() {
        Some(own) if !own.is_empty() => own,
        // In a file, a workload's namespace does not apply to its pod template.
        _ if rules == Rules::Manual => "",
        _ => namespace,
    };
    if is_ignored(namespace) {
        return Decision::Skip(Reason::new(
            words::IGNORED_NAMESPACE,
            format!("pods in namespace {namespace} are never injected"),
        ));
    }
    let policy = match rules {
        Rules::Admission => &config.policy,
        Rules::Manual => &Policy::Enabled,
    };
    if let Policy::Unknown(policy) = policy {
        return Decision::Skip(Reason::new(
            words::UNKNOWN_POLICY,
            format!("the configuration's policy is {policy:?}"),
        ));
    }
    match switch {
        Switch::On => Decision::Inject,
        Switch::OffByLabel => Decision::Skip(opted_out(words::OPTED_OUT_BY_LABEL, "label")),
        Switch::OffByAnnotation => {
            Decision::Skip(opted_out(words::OPTED_OUT_BY_ANNOTATION, "annotation"))
        }
        Switch::Unset => match rules {
            Rules::Manual => Decision::Inject,
            Rules::Admission => by_configuration(config, &metadata["labels"]),
        },
    }
}

/// Returns the reason to skip a pod that belongs to another revision. Applies only if the settings
/// give the pod's label `istio.io/rev` precedence over its namespace's; the API server's selectors
/// match the namespace first.
pub fn of_another_revision(settings: &Settings, pod: &Value) -> Option<Reason> {
    let Outrigger { pod_revision: PodRevision::Own, revision_tags, .. } =
        &settings.values.outrigger
    else {
        return None;
    };
    let asked = pod["metadata"]["labels"][REVISION].as_str().filter(|asked| !asked.is_empty())?;
    let own = settings.process.revision_name();
    let ours = asked == own || revision_tags.iter().any(|tag| tag == asked);
    (!ours).then(|| {
        let message =
            format!("label {REVISION} of the pod is {asked:?}, and this is revision {own:?}");
        Reason::new(words::OTHER_REVISION, message)
    })
}

fn by_configuration(config: &InjectConfig, labels: &Value) -> Decision {
    if config.never_inject_selector.iter().any(|selector| selector.selects(labels)) {
        return Decision::Skip(Reason::new(
            words::NEVER_INJECT_SELECTOR,
            "the pod's labels match the configuration's neverInjectSelector",
        ));
    }
    if config.always_inject_selector.iter().any(|selector| selector.selects(labels)) {
        return Decision::Inject;
    }
    match config.policy {
        Policy::Enabled => Decision::Inject,
        Policy::Disabled | Policy::Unknown(_) => Decision::Skip(Reason::new(
            words::POLICY_DISABLED,
            "the configuration's policy is disabled",
        )),
    }
}

fn opted_out(word: &'static Word, place: &str) -> Reason {
    Reason::new(word, format!("{place} sidecar.istio.io/inject of the pod is \"false\""))
}

/// Warns about an invalid value of the pod's `sidecar.istio.io/inject`, which the decision ignores.
pub fn unknown_switch(pod: &Value) -> Option<Reason> {
    let metadata = &pod["metadata"];
    let (place, value) = [("label", "labels"), ("annotation", "annotations")]
        .into_iter()
        .find_map(|(place, list)| Some((place, metadata[list].get(INJECT)?.as_str()?)))?;
    let known = ["", "true", "false"].contains(&value);
    (!known).then(|| {
        let message = format!("{place} {INJECT} of the pod is {value:?}, which has no effect");
        Reason::new(words::UNKNOWN_SWITCH, message)
    })
}

/// The pod's own `sidecar.istio.io/inject`. The label, even an empty one, takes precedence over the
/// annotation.
enum Switch {
    On,
    OffByLabel,
    OffByAnnotation,
    Unset,
}

impl Switch {
    fn from_metadata(metadata: &Value) -> Self {
        let label = metadata["labels"].get(INJECT).and_then(Value::as_str);
        let annotation = metadata["annotations"].get(INJECT).and_then(Value::as_str);
        match (label, annotation) {
            (Some("true"), _) | (None, Some("true")) => Self::On,
            (Some("false"), _) => Self::OffByLabel,
            (None, Some("false")) => Self::OffByAnnotation,
            _ => Self::Unset,
        }
    }
}

/// True if pods of the namespace are never injected.
pub fn is_ignored(namespace: &str) -> bool {
    IGNORED_NAMESPACES.contains(&namespace)
}

const IGNORED_NAMESPACES: [&str; 4] =
    ["kube-system", "kube-public", "kube-node-lease", "local-path-storage"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn word(config: &str, rules: Rules, pod: &Value) -> String {
        let config = InjectConfig::parse(config).unwrap();
        match decide(&config, rules, pod, "default") {
            Decision::Inject => "inject".to_owned(),
            Decision::Skip(reason) => reason.word().to_owned(),
        }
    }

    #[test]
    fn policy_precedence_equals_istio() {
        let never = "policy: enabled\nneverInjectSelector: [{matchLabels: {app: web}}]\n\
                     alwaysInjectSelector: [{matchLabels: {app: web}}]";
        let always = "policy: disabled\nalwaysInjectSelector: [{matchExpressions: [{key: app, operator: Exists}]}]";
        let labels = |labels: Value| json!({"metadata": {"labels": labels}, "spec": {}});
        let annotated =
            |value: &str| json!({"metadata": {"annotations": {INJECT: value}}, "spec": {}});
        for (config, pod, expected) in [
            ("policy: enabled", json!({"metadata": {}, "spec": {}}), "inject"),
            (
                "policy: enabled",
                json!({"metadata": {}, "spec": {"hostNetwork": true}}),
                "host_network",
            ),
            (
                "policy: enabled",
                json!({"metadata": {"labels": {INJECT: "false"}}, "spec": {"hostNetwork": true}}),
                "opted_out_by_label",
            ),
            (
                "policy: enabled",
                json!({"metadata": {}, "spec": {"os": {"name": "windows"}}}),
                "windows",
            ),
            (
                "policy: enabled",
                json!({"metadata": {}, "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}}}),
                "windows",
            ),
            (
                "policy: enabled",
                json!({"metadata": {}, "spec": {"os": {"name": "linux"}}}),
                "inject",
            ),
            (
                "policy: enabled",
                json!({"metadata": {"namespace": "kube-system"}, "spec": {}}),
                "ignored_namespace",
            ),
            ("policy: disabled", json!({"metadata": {}, "spec": {}}), "policy_disabled"),
            ("policy: sometimes", labels(json!({INJECT: "true"})), "unknown_policy"),
            ("policy: disabled", labels(json!({INJECT: "true"})), "inject"),
            ("policy: disabled", annotated("true"), "inject"),
            ("policy: enabled", labels(json!({INJECT: "false"})), "opted_out_by_label"),
            ("policy: enabled", annotated("false"), "opted_out_by_annotation"),
            ("policy: enabled", annotated("no"), "inject"),
            ("policy: disabled", annotated("yes"), "policy_disabled"),
            (
                "policy: enabled",
                json!({"metadata": {"labels": {INJECT: ""}, "annotations": {INJECT: "false"}}, "spec": {}}),
                "inject",
            ),
            (never, labels(json!({"app": "web"})), "never_inject_selector"),
            (never, labels(json!({"app": "web", INJECT: "true"})), "inject"),
            (always, labels(json!({"app": "any"})), "inject"),
            (always, labels(json!({})), "policy_disabled"),
            ("policy: enabled\nneverInjectSelector: [{}]", labels(json!({"app": "web"})), "inject"),
        ] {
            assert_eq!(word(config, Rules::Admission, &pod), expected, "{config}: {pod}");
        }
    }

    #[test]
    fn invalid_inject_value_gets_a_warning() {
        let labelled = |value: &str| json!({"metadata": {"labels": {INJECT: value}}});
        assert_eq!(unknown_switch(&labelled("true")), None);
        assert_eq!(unknown_switch(&json!({"metadata": {}})), None);
        let reason = unknown_switch(&labelled("False")).unwrap();
        assert!(reason.to_string().contains("\"False\", which has no effect"), "{reason}");
    }

    #[test]
    fn kube_inject_uses_only_the_annotation_of_the_pod() {
        let plain = json!({"metadata": {"labels": {"app": "web"}}, "spec": {}});
        let never = "policy: disabled\nneverInjectSelector: [{matchLabels: {app: web}}]";
        assert_eq!(word(never, Rules::Manual, &plain), "inject");
        let out = json!({"metadata": {"annotations": {INJECT: "false"}}, "spec": {}});
        assert_eq!(word("policy: enabled", Rules::Manual, &out), "opted_out_by_annotation");
    }

    #[test]
    fn kube_inject_ignores_the_workload_namespace() {
        let config = InjectConfig::parse("policy: enabled").unwrap();
        let pod = json!({"metadata": {}, "spec": {}});
        assert_eq!(decide(&config, Rules::Manual, &pod, "kube-system"), Decision::Inject);
        let own = json!({"metadata": {"namespace": "kube-system"}, "spec": {}});
        assert_ne!(decide(&config, Rules::Manual, &own, "shop"), Decision::Inject);
        assert_ne!(decide(&config, Rules::Admission, &pod, "kube-system"), Decision::Inject);
    }
}
