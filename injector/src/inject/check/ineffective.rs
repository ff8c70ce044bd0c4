//! Annotations of a pod that have no effect: beside its other settings, or in any version that is
//! still in use.

use reason::{Reason, words};

use crate::overlay::context::Context;
use crate::settings::annotations::{Annotations, key};

/// Returns a warning about each annotation without effect. Other templates than Istio's sidecar may
/// use annotations differently, so only retired ones are found in a pod without it.
pub(crate) fn warnings(context: &Context<'_>, is_sidecar: bool) -> Vec<Reason> {
    let annotations = context.annotations;
    let beside_others = RULES.iter().filter(|_| is_sidecar).flat_map(|rule| {
        let keys = rule.keys.iter();
        keys.filter_map(|key| {
            Some((*key, (rule.cause)(context, annotations.get(key)?)?, rule.hint))
        })
    });
    let retired = RETIRED.iter().map(|(key, hint)| (*key, "it is no longer in use", *hint));
    let mut found: Vec<(&str, Reason)> = Vec::new();
    for (key, cause, hint) in beside_others.chain(retired) {
        // The first cause is enough.
        let is_new = found.iter().all(|(other, _)| *other != key);
        if is_new && is_set(annotations, key) {
            let message = format!("annotation {key} of the pod has no effect: {cause}");
            found.push((key, Reason::new(words::NO_EFFECT, message).with_hint(hint)));
        }
    }
    found.into_iter().map(|(_, reason)| reason).collect()
}

/// Annotations that no version in use reads, with the action to take.
pub(super) const RETIRED: [(&str, &str); 8] = [
    (key::APPLICATION_PORTS, "remove it"),
    ("policy.istio.io/check", "remove it: Mixer no longer exists"),
    ("policy.istio.io/checkBaseRetryWaitTime", "remove it: Mixer no longer exists"),
    ("policy.istio.io/checkMaxRetryWaitTime", "remove it: Mixer no longer exists"),
    ("policy.istio.io/checkRetries", "remove it: Mixer no longer exists"),
    ("policy.istio.io/lang", "remove it: Mixer no longer exists"),
    (
        "sidecar.istio.io/controlPlaneAuthPolicy",
        "write controlPlaneAuthPolicy in annotation proxy.istio.io/config",
    ),
    ("sidecar.istio.io/enableCoreDump", "remove it, and configure core dumps of the node"),
];

/// Annotations that other settings make ineffective.
struct Rule {
    keys: &'static [&'static str],
    /// Returns the cause for a value of one of the annotations.
    cause: fn(&Context<'_>, &str) -> Option<&'static str>,
    hint: &'static str,
}

/// Rules in the order of precedence.
const RULES: [Rule; 8] = [
    Rule {
        keys: &[
            key::INCLUDE_OUTBOUND_IP_RANGES,
            key::EXCLUDE_OUTBOUND_IP_RANGES,
            key::INCLUDE_INBOUND_PORTS,
            key::EXCLUDE_INBOUND_PORTS,
            key::INCLUDE_OUTBOUND_PORTS,
            key::EXCLUDE_OUTBOUND_PORTS,
            key::EXCLUDE_INTERFACES,
            key::KUBEVIRT_INTERFACES,
            key::REROUTE_VIRTUAL_INTERFACES,
        ],
        cause: |context, _| {
            let cause = "the interception mode is NONE, so nothing is captured";
            (context.interception_mode() == "NONE").then_some(cause)
        },
        hint: "remove it, or set sidecar.istio.io/interceptionMode to REDIRECT or TPROXY",
    },
    Rule {
        keys: &[key::INCLUDE_OUTBOUND_PORTS],
        cause: |context, _| {
            let default = &context.settings.values.global.proxy.include_ip_ranges;
            let ranges = context.annotations.or(key::INCLUDE_OUTBOUND_IP_RANGES, default);
            (ranges == "*").then_some("includeOutboundIPRanges is *, so all ports are captured")
        },
        hint: "set traffic.sidecar.istio.io/includeOutboundIPRanges to a list; an empty one leaves \
               these ports alone",
    },
    Rule {
        keys: &[key::EXCLUDE_INBOUND_PORTS],
        cause: |context, _| {
            let default = &context.settings.values.global.proxy.include_inbound_ports;
            let ports = context.annotations.or(key::INCLUDE_INBOUND_PORTS, default);
            (ports != "*").then_some("includeInboundPorts is a list, and other ports stay free")
        },
        hint: "remove the port from traffic.sidecar.istio.io/includeInboundPorts",
    },
    Rule {
        keys: &[key::PROXY_IMAGE],
        cause: |_, image| {
            let cause = "it has no slash, so the image of the values applies";
            (!image.contains('/')).then_some(cause)
        },
        hint: "write the whole image, such as registry.example/istio/proxyv2:1.28",
    },
    Rule {
        keys: &[key::PROXY_IMAGE_TYPE],
        cause: |context, _| {
            let default = &context.settings.values.global.proxy.image;
            let image = context.annotations.or(key::PROXY_IMAGE, default);
            let cause = "the image of the proxy is complete, and its tag stays as it is";
            image.contains('/').then_some(cause)
        },
        hint: "write the variant into the tag of the image",
    },
    Rule {
        keys: &[key::KUBEVIRT_INTERFACES],
        cause: |context, _| {
            let is_replaced = is_set(context.annotations, key::REROUTE_VIRTUAL_INTERFACES);
            is_replaced.then_some("annotation istio.io/reroute-virtual-interfaces takes precedence")
        },
        hint: "remove it",
    },
    Rule {
        keys: &[
            key::READINESS_INITIAL_DELAY,
            key::READINESS_PERIOD,
            key::READINESS_FAILURE_THRESHOLD,
        ],
        cause: |context, _| {
            let default = &context.settings.values.global.proxy.status_port;
            let port = context.annotations.or(key::STATUS_PORT, default).trim();
            (port == "0").then_some("the status port is 0, so the proxy has no probes")
        },
        hint: "remove it, or set status.sidecar.istio.io/port",
    },
    Rule {
        keys: &[key::DATADOG_ENV],
        cause: |context, _| {
            let tracer = &*context.settings.values.global.proxy.tracer;
            (tracer != "datadog").then_some("the tracer is not Datadog")
        },
        hint: "remove it, or set global.proxy.tracer to datadog in the values",
    },
];

fn is_set(annotations: Annotations<'_>, key: &str) -> bool {
    annotations.get(key).is_some_and(|value| !value.trim().is_empty())
}
