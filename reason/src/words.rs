//! Every word of a [`Reason`](crate::Reason) and of the metric label `reason`. One table of word,
//! meaning and hint drives the constructors and the reference page.

/// A row of the table. No code outside this module makes one, so every word is in the table.
#[derive(Debug, Eq, PartialEq)]
pub struct Word {
    text: &'static str,
    meaning: &'static str,
    hint: Hint,
}

/// Hint that belongs to a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hint {
    /// No hint.
    None,
    /// The same hint for every reason with the word.
    Fixed(&'static str),
    /// A hint that depends on the case; this describes it.
    Varies(&'static str),
}

impl Word {
    /// Returns the word: lower case with `_`. It fits a metric label.
    pub const fn as_str(&self) -> &'static str {
        self.text
    }

    /// Returns the meaning, for the reference page.
    pub const fn meaning(&self) -> &'static str {
        self.meaning
    }

    /// Returns the hint.
    pub const fn hint(&self) -> Hint {
        self.hint
    }
}

/// Words of one use.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Title on the reference page.
    pub title: &'static str,
    /// Rows in the order of the table.
    pub words: &'static [&'static Word],
}

macro_rules! words {
    ($($title:literal { $($name:ident = $text:literal, $meaning:literal, $hint:expr;)* })*) => {
        $($(
            #[doc = $meaning]
            pub const $name: &Word = &Word { text: $text, meaning: $meaning, hint: $hint };
        )*)*

        /// The whole table.
        pub const SECTIONS: &[Section] = &[$(Section { title: $title, words: &[$($name),*] }),*];
    };
}

use Hint::{Fixed, None, Varies};

/// Hint of a report about a pod that would be denied.
const DRY_RUN: Hint = Varies("in reports: `create it with --dry-run=server to see the error`");
/// Hint about a webhook configuration whose rules select more than new pods.
const RULES: Hint = Fixed("limit the rules of the MutatingWebhookConfiguration to CREATE of pods");

#[rustfmt::skip]
words! {
    "Skipped: the pod stays as it is" {
        HOST_NETWORK = "host_network", "The pod uses the node's network, which must not be captured",
            Fixed("set spec.hostNetwork to false to inject the pod");
        WINDOWS = "windows", "The pod's containers run on Windows", None;
        IGNORED_NAMESPACE = "ignored_namespace", "Pods of the namespace are never injected", None;
        OPTED_OUT_BY_LABEL = "opted_out_by_label", "The label `sidecar.istio.io/inject` of the pod is `false`", None;
        OPTED_OUT_BY_ANNOTATION = "opted_out_by_annotation", "The annotation `sidecar.istio.io/inject` of the pod is `false`", None;
        NEVER_INJECT_SELECTOR = "never_inject_selector", "The pod's labels match `neverInjectSelector` of the configuration",
            Fixed("label the pod sidecar.istio.io/inject=true to inject it anyway");
        POLICY_DISABLED = "policy_disabled", "`policy` of the configuration is `disabled`",
            Fixed("label the pod sidecar.istio.io/inject=true to inject it");
        UNKNOWN_POLICY = "unknown_policy", "`policy` of the configuration has an unknown value",
            Fixed("set policy to enabled or disabled");
        OTHER_REVISION = "other_revision", "The label `istio.io/rev` of the pod names another revision, and `podRevision` is `own`",
            Fixed("check that the webhook of that revision selects the pod");
        NOT_A_POD = "not_a_pod", "The review is about another resource than a pod", RULES;
        NOT_A_CREATE = "not_a_create", "The review is about another operation than `CREATE`", RULES;
    }
    "Denied: the pod is rejected" {
        BAD_ANNOTATION = "bad_annotation", "An annotation of the pod has an invalid value", DRY_RUN;
        BAD_POD = "bad_pod", "The pod does not have the form of the Kubernetes API, or cannot be injected", DRY_RUN;
        POD_TOO_LARGE = "pod_too_large", "The pod, or the pod after injection, exceeds a size limit", DRY_RUN;
        TOO_EXPENSIVE = "too_expensive", "Injection of the pod exceeds the limits on work", DRY_RUN;
        MERGE_FAILED = "merge_failed", "A field of the pod and the injected one cannot be merged", DRY_RUN;
        UNKNOWN_TEMPLATE = "unknown_template", "The pod or the configuration names a template that does not exist", DRY_RUN;
        TEMPLATE_FAILED = "template_failed", "A template of the configuration cannot be rendered", DRY_RUN;
        PROXY_USER = "proxy_user", "A container runs as the proxy's user or group, so its traffic is not captured; a warning unless `proxyUser` is `deny`",
            Varies("the field of `securityContext` to set");
        NO_REQUEST = "no_request", "The review has no `request`", None;
    }
    "Failed: the call has no review as its answer" {
        BAD_METHOD = "bad_method", "The method is not `POST`", None;
        BAD_PATH = "bad_path", "The path has invalid variables", None;
        BAD_CONTENT_TYPE = "bad_content_type", "The `Content-Type` is not `application/json`", None;
        NO_BODY = "no_body", "The request has no body", None;
        BODY_TOO_LARGE = "body_too_large", "The body is larger than `--max-review-bytes`", None;
        TOO_MANY_VALUES = "too_many_values", "The body holds more values than any pod", None;
        BODY_BROKEN = "body_broken", "The connection failed before the end of the body", None;
        BODY_TOO_SLOW = "body_too_slow", "The body did not arrive in time", None;
        BAD_REVIEW = "bad_review", "The body is not an `AdmissionReview`", None;
        BUSY = "busy", "No slot for the review was free in time", None;
        TOO_LATE = "too_late", "Injection takes longer than the call may take", None;
        NO_CONFIGURATION = "no_configuration", "No configuration is loaded yet", None;
        INTERNAL = "internal", "The answer cannot be written", None;
        PANIC = "panic", "The call ended in a panic", None;
    }
    "Warnings: the pod is injected" {
        UNKNOWN_KEY = "unknown_key", "A label or annotation of the pod resembles a key of injection", Varies("the key that may be meant");
        MISPLACED_KEY = "misplaced_key", "A label of the pod is known as an annotation only, or the reverse", Varies("labels or annotations");
        MISPLACED_OPT_OUT = "misplaced_opt_out", "A workload has `sidecar.istio.io/inject: false` outside of its pod template, where it has no effect", Varies("the place to move it to");
        MISPLACED_IN_WORKLOAD = "misplaced_in_workload", "A workload has a label or annotation of injection outside of its pod template, where it has no effect", Varies("the place to move it to");
        UNKNOWN_VALUE = "unknown_value", "An annotation of the pod has an unknown value, which has no effect", Varies("the known values");
        NO_EFFECT = "no_effect", "An annotation of the pod has no effect, because of another setting or in any version", Varies("what to change");
        UNKNOWN_FIELD = "unknown_field", "A volume or mount of an annotation has a field that no known version of Kubernetes has",
            Fixed("check the spelling; an API server drops fields that it does not know");
        UNKNOWN_SWITCH = "unknown_switch", "`sidecar.istio.io/inject` of the pod is neither `true` nor `false`", Fixed("use \"true\" or \"false\"");
        UNKNOWN_PROXY_CONFIG_KEY = "unknown_proxy_config_key", "The annotation `proxy.istio.io/config` has an unknown key", Varies("the key that may be meant");
        REPEATED_IN_PROXY_CONFIG = "repeated_in_proxy_config", "A key occurs twice in the annotation `proxy.istio.io/config`; the last one applies", None;
        ZERO_IN_PROXY_CONFIG = "zero_in_proxy_config", "A value in the annotation `proxy.istio.io/config` is zero, so another source of the value applies", None;
        NO_TEXT_IN_PROXY_METADATA = "no_text_in_proxy_metadata", "A value of `proxyMetadata` is a number or a switch in YAML, and is used as text",
            Fixed("quote it to keep it as written");
        REQUEST_ABOVE_LIMIT = "request_above_limit", "A request that an annotation sets is above the limit that another one sets",
            Fixed("lower the request or raise the limit");
        POD_RESOURCES = "pod_resources", "Resources of the containers exceed those of the pod (`spec.resources`)",
            Fixed("set the proxy's resources by annotation, or set outrigger.podResources to omit in the values");
        DNS_POLICY = "dns_policy", "With `dnsPolicy` of the pod, the proxy may not find the control plane",
            Fixed("use dnsPolicy ClusterFirst: the proxy looks up names of Services");
        MISSING_VOLUME = "missing_volume", "The proxy mounts a volume that does not exist", Fixed("add it to one of them");
        OWN_VOLUME = "own_volume", "A volume of the pod has the name of an injected one",
            Fixed("rename it unless the proxy should get the pod's volume");
        OWN_SYSCTLS = "own_sysctls", "The list of `sysctls` of the pod is replaced by that of a template",
            Fixed("write all of them in gateways.securityContext of the values");
        OWN_PORT = "own_port", "A user-supplied port has the name of an injected one, which loses its name",
            Fixed("rename it unless that is intended");
        OWN_USER = "own_user", "A user-supplied container runs as root, and the injected `runAsNonRoot` forbids it",
            Fixed("set runAsNonRoot: false too");
        OWN_RESOURCES = "own_resources", "A user-supplied request or limit contradicts the injected counterpart, which is left out", Varies("the value to write too");
        KEPT_PROXY = "kept_proxy", "The pod's `istio-proxy` held the application before and keeps its fields",
            Fixed("remove istio-proxy and annotation sidecar.istio.io/status from the pod to get a new proxy");
        HOLD_CANCELED = "hold_canceled", "`holdApplicationUntilProxyStarts` has no effect, because `global.proxy.lifecycle` of the values replaces its hook",
            Fixed("add postStart: {exec: {command: [pilot-agent, wait]}} to global.proxy.lifecycle");
        OTHER_MESH = "other_mesh", "The pod also has the sidecar of another service mesh, or asks for it", Varies("how to opt out of one of them");
        PROBE_OF_THE_AGENT = "probe_of_the_agent", "A probe of the application calls a port of the agent, which does not answer it",
            Fixed("annotate the pod sidecar.istio.io/rewriteAppHTTPProbers=false to keep it");
        PROBE_OF_THE_NODE = "probe_of_the_node", "A probe or hook has a `host` of the node's loopback, which the kubelet calls instead of the pod",
            Fixed("leave host out: the kubelet then calls the pod");
        PROBE_PORT_UNKNOWN = "probe_port_unknown", "A probe names a port that its container does not have", None;
        NETWORK_LABEL = "network_label", "The name of the network cannot be the value of a label",
            Fixed("use a name that is a valid label value; the proxy gets this one, but the pod gets no label topology.istio.io/network");
        NAMESPACE_UNKNOWN = "namespace_unknown", "The users that the platform allows are not known, so the proxy runs as 1337",
            Fixed("check that the injector may get, list and watch namespaces");
        COMMENTS_LOST = "comments_lost", "Comments inside a field that `kube-inject` or `uninject` rewrites are left out, such as a handler of a probe, or a container that moves to another list",
            Fixed("write the comments above the field");
    }
    "Uninjection" {
        BAD_STATUS = "bad_status", "With `uninject`, the annotation `sidecar.istio.io/status` or `proxy.istio.io/overrides` is invalid, or names no sidecar that is there",
            Fixed("restore the annotation, or remove the sidecar by hand");
        MAY_BE_OWN = "may_be_own", "With `uninject`, a field is removed that injection writes, and its author may have written the same",
            Fixed("if the field is yours, write it again");
        MAY_BE_INJECTED = "may_be_injected", "With `uninject`, a field is kept that its author or injection may have written",
            Fixed("if the field is not yours, remove it");
        NOT_RECORDED = "not_recorded", "With `uninject`, a field is not exactly as before, because injection does not record it",
            Fixed("compare the field with your own manifest");
        LOST_RECORD = "lost_record", "With `uninject`, a variable of the proxy that records the original values is no longer the JSON of injection",
            Fixed("compare the field with your own manifest");
        ABSENT_PART = "absent_part", "With `uninject`, the annotation `sidecar.istio.io/status` names a container or volume that the pod does not have",
            Fixed("check that the annotation belongs to this pod");
    }
    "Reports: a pod that runs" {
        NO_SIDECAR = "no_sidecar", "The pod has no sidecar, and a new pod would get one",
            Fixed("the pod was created while the webhook was unavailable, or before its labels or the configuration changed; recreate it to get the sidecar");
        REVISION_CHANGED = "revision_changed", "Another revision would inject a new pod", None;
        IMAGE_CHANGED = "image_changed", "An injected container would have another image", None;
        CONTAINERS_CHANGED = "containers_changed", "Another set of containers would be injected", None;
        NOT_SELECTED = "not_selected", "No webhook selects the pod", None;
        UNKNOWN_CONFIGURATION = "unknown_configuration", "The configuration of the revision that selects the pod cannot be read", None;
    }
    "`istioctl kube-inject`: an object stays as it is" {
        UNKNOWN_KIND = "unknown_kind", "An object of an unknown kind or API version has a pod template", Varies("the known versions, or the `--pod-template` to add");
        KIND_CASE = "kind_case", "The kind is a known one in another case", Varies("the kind to write");
        KNATIVE = "knative", "An object of Knative has a pod template, and Knative rejects the fields of a sidecar there",
            Fixed("let the webhook inject its pods: label the namespace, or the template with sidecar.istio.io/inject: \"true\"");
        NO_API_VERSION = "no_api_version", "A workload has no `apiVersion`", Varies("the version to write");
        NOT_RENDERED = "not_rendered", "A file is a kustomization, or describes a Helm chart", Varies("pass the output of `kubectl kustomize` or `helm template` instead");
        NO_KIND = "no_kind", "A document has no `kind`", Fixed("write its apiVersion and kind");
        NO_LIST = "no_list", "The `items` of a `List` are not a list", Fixed("start each item with a dash");
        NOT_READ = "not_read", "A document is not YAML, and its kind holds no pod",
            Fixed("correct the YAML before the file is applied");
        NO_OBJECT = "no_object", "A document is a list or a scalar", None;
    }
}
