//! Template data: the pod and the settings as values of Go types.

use std::collections::HashMap;
use std::sync::LazyLock;

use go_types::{
    MESH_CONFIG, NAMESPACED_NAME, OBJECT_META, POD_SPEC, PROXY_CONFIG, TEMPLATE_DATA, TYPE_META,
    Type,
};
use gtmpl_ng::Value as TemplateValue;
use mesh::mesh_config::{InboundTrafficPolicy, MeshConfig};
use serde_json::{Map, Value, json};

use super::context::Context;
use super::image;
use crate::istio::otel_attributes;
use crate::settings::annotations::key;
use crate::template::escape;
use crate::template::values::json::{JSON, OTEL, document};
use crate::template::values::used_fields::UsedFields;
use crate::template::values::{self, of_struct};

/// Returns the data for one pod.
///
/// Text that comes from the pod is guarded, see [`escape`].
pub(super) fn from_context(context: &Context<'_>) -> TemplateValue {
    let settings = context.settings;
    let workload = context.workload;
    let used_fields = settings.templates.used_fields();
    let mesh = &settings.mesh;
    let inbound = match mesh.inbound_traffic_policy {
        InboundTrafficPolicy::Localhost => "localhost",
        InboundTrafficPolicy::Passthrough => "passthrough",
    };
    let kind = [("Kind", text(&workload.kind)), ("APIVersion", text(&workload.api_version))];
    let name = [("Name", text(&workload.name)), ("Namespace", text(&workload.namespace))];
    value(
        TEMPLATE_DATA,
        [
            ("TypeMeta", value(TYPE_META, kind)),
            ("DeploymentMeta", value(NAMESPACED_NAME, name)),
            ("ObjectMeta", object_meta(context, used_fields)),
            ("Spec", of_struct(POD_SPEC, members(&context.pod["spec"]), used_fields)),
            ("ProxyConfig", proxy_config(context, used_fields)),
            ("MeshConfig", mesh_config(mesh, used_fields)),
            ("Values", settings.templates.values().clone()),
            ("Revision", TemplateValue::from(&settings.process.revision)),
            ("NativeSidecars", TemplateValue::from(context.native_sidecars)),
            ("ProxyImage", text(&image::of_proxy(context))),
            ("ProxyInitImage", text(&image::of_init(context))),
            ("ProxyUID", TemplateValue::from(context.identity.uid)),
            ("ProxyGID", TemplateValue::from(context.identity.gid)),
            ("InboundTrafficPolicyMode", TemplateValue::from(inbound)),
            ("CompliancePolicy", TemplateValue::from(&settings.process.compliance_policy)),
        ],
    )
}

fn object_meta(context: &Context<'_>, used_fields: &UsedFields) -> TemplateValue {
    let metadata = &context.pod["metadata"];
    let mut fields = of_struct(OBJECT_META, members(metadata), used_fields);
    let own = metadata["namespace"].as_str().filter(|own| !own.is_empty());
    if let (None, TemplateValue::Object(fields)) = (own, &mut fields) {
        if let Some(got) = fields.get_mut("GetNamespace") {
            *got = text(context.namespace);
        }
        fields.insert("Namespace".to_owned(), text(context.namespace));
    }
    if let TemplateValue::Object(fields) = &mut fields
        && let Some(TemplateValue::Map(annotations)) = fields.get_mut("Annotations")
        && let Some(TemplateValue::String(port)) = annotations.get_mut(key::STATUS_PORT)
    {
        // Surrounding blanks are ignored here as everywhere else.
        *port = port.trim().to_owned();
    }
    fields
}

fn proxy_config(context: &Context<'_>, used_fields: &UsedFields) -> TemplateValue {
    let mut message = of_struct(PROXY_CONFIG, Some(context.proxy_config.fields()), used_fields);
    if let TemplateValue::Object(members) = &mut message {
        members.insert(JSON.to_owned(), TemplateValue::from(context.proxy_config.to_json()));
    }
    message
}

fn mesh_config(mesh: &MeshConfig, used_fields: &UsedFields) -> TemplateValue {
    let mut fields = MESH_DEFAULTS.clone();
    let given = mesh.document.iter().filter(|(_, value)| !value.is_null());
    fields.extend(given.map(|(name, value)| (name.clone(), value.clone())));
    for (name, value) in [
        ("proxyListenPort", json!(mesh.proxy_listen_port)),
        ("proxyInboundListenPort", json!(mesh.proxy_inbound_listen_port)),
        ("trustDomain", json!(mesh.trust_domain)),
        ("rootNamespace", json!(mesh.root_namespace)),
        ("enablePrometheusMerge", json!(mesh.enable_prometheus_merge)),
        ("defaultConfig", Value::Object(mesh.default_config.fields().clone())),
    ] {
        fields.insert(name.to_owned(), value);
    }
    let mut message = of_struct(MESH_CONFIG, Some(&fields), used_fields);
    if let TemplateValue::Object(members) = &mut message {
        let asks = otel_attributes::asks(&mesh.extension_providers);
        let providers = mesh.extension_providers.iter().map(document).collect();
        let otel = if asks { TemplateValue::Array(providers) } else { TemplateValue::Nil };
        members.insert(OTEL.to_owned(), otel);
    }
    message
}

fn members(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}

fn text(text: &str) -> TemplateValue {
    TemplateValue::String(escape::guarded(text).into_owned())
}

/// Returns a value of a struct, given all of its fields.
fn value<const N: usize>(of: &Type, fields: [(&str, TemplateValue); N]) -> TemplateValue {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    let fields: HashMap<_, _> = fields.chain([values::typed(of)]).collect();
    TemplateValue::Object(fields)
}

/// `DefaultMeshConfig` of `istio/pkg/config/mesh`, without the fields that [`MeshConfig`] has
/// itself.
static MESH_DEFAULTS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let defaults = json!({
        "connectTimeout": "10s",
        "defaultDestinationRuleExportTo": ["*"],
        "defaultProviders": {},
        "defaultServiceExportTo": ["*"],
        "defaultVirtualServiceExportTo": ["*"],
        "dnsRefreshRate": "60s",
        "enableAutoMtls": true,
        "enableTracing": true,
        "inboundTrafficPolicy": {"mode": "PASSTHROUGH"},
        "ingressClass": "istio",
        "ingressControllerMode": "STRICT",
        "ingressService": "istio-ingressgateway",
        "localityLbSetting": {"enabled": true},
        "outboundTrafficPolicy": {"mode": "ALLOW_ANY"},
        "protocolDetectionTimeout": "0s",
    });
    match defaults {
        Value::Object(defaults) => defaults,
        _ => Map::new(),
    }
});

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mesh::proxy_config::ProxyConfig;

    use super::*;
    use crate::template::Templates;

    /// Returns the result of an expression for a pod; `$c` is its container, `$v` its volume.
    fn shown(expression: &str) -> String {
        let given = "{{- $c := index .Spec.Containers 0 }}{{ $v := index .Spec.Volumes 0 -}}";
        let template = format!("{given}a: |-\n  {{{{ {expression} }}}}\n");
        let texts = BTreeMap::from([("t".to_owned(), template)]);
        let templates = Templates::parse(&texts, &json!({"a": {}})).unwrap();
        let used_fields = templates.used_fields();
        let mesh = "{trustDomain: td, connectTimeout: 3.5s, enableTracing: false}";
        let mut proxy = ProxyConfig::default();
        let layer = json!({"interceptionMode": "TPROXY", "concurrency": 2, "drainDuration": "90s"});
        proxy.overlay(&layer).unwrap();
        let pod = documents::yaml::parse(POD).unwrap();
        let data = value(
            TEMPLATE_DATA,
            [
                ("ObjectMeta", of_struct(OBJECT_META, members(&pod["metadata"]), used_fields)),
                ("Spec", of_struct(POD_SPEC, members(&pod["spec"]), used_fields)),
                ("ProxyConfig", of_struct(PROXY_CONFIG, Some(proxy.fields()), used_fields)),
                ("MeshConfig", mesh_config(&MeshConfig::parse(mesh).unwrap(), used_fields)),
                ("Values", templates.values().clone()),
            ],
        );
        match templates.render("t", data) {
            Ok(rendered) => rendered["a"].as_str().unwrap_or_default().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    const POD: &str = "
        metadata:
          {name: web, labels: {app: web}, annotations: {x: '1'}, creationTimestamp: 2024-01-02T03:04:05Z}
        spec:
          containers:
          - name: web
            image: app:1
            livenessProbe: {httpGet: {path: /, port: 8080}}
            readinessProbe: {httpGet: {port: http}}
            securityContext: {privileged: false, runAsUser: 0}
            resources: {limits: {cpu: 1500m, memory: 1024Mi}, requests: {cpu: 1500u, memory: '1e3'}}
            env: [{name: A, valueFrom: {configMapKeyRef: {name: cm, key: k}}}]
            ports: [{containerPort: 80}]
            lifecycle: {preStop: {exec: {command: [\"é'\u{F0027}\"]}}}
          securityContext: {}
          automountServiceAccountToken: false
          terminationGracePeriodSeconds: 0
          priority: 5
          volumes: [{name: v, emptyDir: {}}]";

    #[test]
    fn fields_of_template_data_have_gos_values() {
        for (expression, expected) in [
            ("if .Spec.SecurityContext }}yes{{ else }}no{{ end", "yes"),
            ("if $v.EmptyDir }}yes{{ else }}no{{ end", "yes"),
            ("with $v.HostPath }}yes{{ else }}no{{ end", "no"),
            ("with $v.VolumeSource.EmptyDir }}{{ .Medium }}yes{{ end", "yes"),
            ("if $c.Resources }}yes{{ end", "yes"),
            ("if $c.StartupProbe }}yes{{ else }}no{{ end", "no"),
            (
                "if .Spec.AutomountServiceAccountToken }}{{ .Spec.AutomountServiceAccountToken }}{{ end",
                "false",
            ),
            ("with .Spec.TerminationGracePeriodSeconds }}{{ . }}{{ else }}no{{ end", "0"),
            (
                "if $c.SecurityContext.Privileged }}{{ $c.SecurityContext.Privileged }}{{ end",
                "false",
            ),
            ("$c.SecurityContext.RunAsUser | default 5", "0"),
            ("empty .Spec.SecurityContext", "false"),
            (r#"ternary "a" "b" (not .Spec.SecurityContext)"#, "b"),
            (r#"and .Spec.SecurityContext "a""#, "a"),
            (r#"or .Spec.DNSConfig "a""#, "a"),
            (r#"coalesce $c.Args "a""#, "a"),
            (".ObjectMeta.Labels.none", "<no value>"),
            (".Values.none.deeper", "<no value>"),
            (".Spec.HostNetwork", "false"),
            (".Spec.Priority", "5"),
            ("$c.WorkingDir | quote", r#""""#),
            ("$c.TTY", "false"),
            ("$c.LivenessProbe.HTTPGet.Port", "8080"),
            ("$c.ReadinessProbe.HTTPGet.Port", "http"),
            ("$c.LivenessProbe.ProbeHandler.HTTPGet.Path", "/"),
            ("$c.LivenessProbe.PeriodSeconds", "0"),
            ("$c.Resources.Limits | toJson", r#"{"cpu":"1500m","memory":"1Gi"}"#),
            ("(index $c.Env 0).ValueFrom.ConfigMapKeyRef.Name", "cm"),
            ("(index $c.Ports 0).Protocol | quote", r#""""#),
            ("structToJSON (index $c.Ports 0)", r#"{"containerPort":80}"#),
            ("toJson $c.SecurityContext", r#"{"privileged":false,"runAsUser":0}"#),
            ("toJson $v", r#"{"name":"v","emptyDir":{}}"#),
            (
                "toJson $c.Env",
                r#"[{"name":"A","valueFrom":{"configMapKeyRef":{"name":"cm","key":"k"}}}]"#,
            ),
            ("toJson $c.Lifecycle", "{\"preStop\":{\"exec\":{\"command\":[\"é'\u{F0027}\"]}}}"),
            (".ProxyConfig.InterceptionMode", "TPROXY"),
            (".ProxyConfig.InterceptionMode.String", "TPROXY"),
            (".ProxyConfig.ControlPlaneAuthPolicy.String", "MUTUAL_TLS"),
            (".ProxyConfig.Concurrency.GetValue", "2"),
            (".ProxyConfig.Concurrency.Value", "2"),
            (".ProxyConfig.GetTracing.GetTlsSettings.GetCaCertificates | quote", r#""""#),
            (".ProxyConfig.GetImage.GetImageType | quote", r#""""#),
            (".ProxyConfig.GetTracing.GetSampling", "0"),
            (".ProxyConfig.HoldApplicationUntilProxyStarts.GetValue", "false"),
            (".ProxyConfig.DrainDuration.Seconds", "90"),
            ("formatDuration .ProxyConfig.DrainDuration", "1m30s"),
            (".ProxyConfig.GetServiceCluster", "istio-proxy"),
            (".MeshConfig.TrustDomain", "td"),
            (".MeshConfig.ConnectTimeout.AsDuration", "3.5s"),
            (".MeshConfig.EnableAutoMtls.GetValue", "true"),
            (".MeshConfig.IngressClass", "istio"),
            (".MeshConfig.DefaultServiceExportTo", "[*]"),
            (".MeshConfig.GetCa.GetAddress | quote", r#""""#),
            ("len .Spec.Volumes", "1"),
            (".ObjectMeta.GetName", "web"),
            (".ObjectMeta.GetLabels.app", "web"),
            (".ObjectMeta.GetGenerateName | quote", r#""""#),
            ("len .ObjectMeta.GetAnnotations", "1"),
            (".ObjectMeta.CreationTimestamp.IsZero", "false"),
            (".ObjectMeta.DeletionTimestamp.IsZero", "true"),
            (".ObjectMeta.GetDeletionTimestamp.IsZero", "true"),
            ("with .ObjectMeta }}{{ .Name }}{{ .GetNamespace }}{{ end", "web"),
            ("toJson .ObjectMeta.GetLabels", r#"{"app":"web"}"#),
            ("$c.Resources.Limits.Cpu", "1500m"),
            ("$c.Resources.Limits.Cpu.Value", "2"),
            ("$c.Resources.Limits.Cpu.MilliValue", "1500"),
            ("$c.Resources.Limits.Cpu.AsApproximateFloat64", "1.5"),
            ("printf `%d` $c.Resources.Limits.Memory.Value", "1073741824"),
            ("$c.Resources.Limits.Memory.String", "1Gi"),
            ("$c.Resources.Limits.Memory.IsZero", "false"),
            ("$c.Resources.Limits.Memory.Sign", "1"),
            ("$c.Resources.Limits.Pods.IsZero", "true"),
            ("if $c.Resources.Limits.Pods }}{{ $c.Resources.Limits.Pods }}{{ end", "0"),
            ("$c.Resources.Requests.Cpu.Value", "1"),
            ("$c.Resources.Requests.Cpu.MilliValue", "2"),
            ("$c.Resources.Requests.Memory.Value", "1000"),
            ("range .Spec.Containers }}{{ .Resources.Limits.StorageEphemeral.Value }}{{ end", "0"),
            ("with $c.Resources.Limits }}{{ .Cpu }} {{ .Pods }}{{ end", "1500m 0"),
            (
                "$l := $c.Resources.Requests }}{{ $l.Cpu }}{{ toJson $l",
                r#"1500u{"cpu":"1500u","memory":"1e3"}"#,
            ),
            ("$l := .Spec.Overhead }}{{ $l.Cpu }}{{ toJson .Spec.DNSConfig", "0null"),
            (
                "$c.Resources.Limits.Cpu.Value }}{{ toJson $c.Resources.Limits",
                r#"2{"cpu":"1500m","memory":"1Gi"}"#,
            ),
            (
                "$c.Resources.Limits.Cpu.Value }}{{ toJson $c.Resources",
                r#"2{"limits":{"cpu":"1500m","memory":"1Gi"},"requests":{"cpu":"1500u","memory":"1e3"}}"#,
            ),
            ("$c.LivenessProbe.HTTPGet.Port.IntVal", "8080"),
            ("$c.LivenessProbe.HTTPGet.Port.IntValue", "8080"),
            ("$c.LivenessProbe.HTTPGet.Port.String", "8080"),
            (
                "$c.ReadinessProbe.HTTPGet.Port.StrVal }}{{ $c.ReadinessProbe.HTTPGet.Port.Type",
                "http1",
            ),
            (
                "toJson $c.ReadinessProbe.HTTPGet }}{{ $c.ReadinessProbe.HTTPGet.Port.IntVal",
                r#"{"port":"http"}0"#,
            ),
        ] {
            assert_eq!(shown(expression), expected, "{expression}");
        }
    }

    #[test]
    fn unknown_fields_of_template_data_are_rejected() {
        let expressions = [
            "if .Spec.Foo }}{{ end",
            ".Spec.hostNetwork",
            "$c.Image.Foo",
            ".Spec.DNSConfig.Nameservers",
            ".Foo",
            ".MeshConfig.Foo",
            ".ProxyConfig.GetFoo",
            r#"index .Spec "HostNetwork""#,
            r#"index .ObjectMeta "Labels""#,
            r#"eq 1 "1""#,
            "index .Spec.Volumes 3",
            "$c.Resources.Limits.Cpu.AsInt64",
            "$v.EmptyDir.SizeLimit.Value",
            "with $c.Resources.Limits.Cpu }}{{ .MilliValue }}{{ end",
            "with $c.Resources.Limits }}{{ .Cpu }}{{ .Gpu }}{{ end",
            "with $c.Resources.Limits }}{{ .Cpu }}{{ end }}{{ range $k, $v := $c.Resources.Limits }}{{ $v }}{{ end",
            "range .Spec }}{{ . }}{{ end",
            "range .Spec }}{{ .Name }}{{ end",
            ".ObjectMeta.GetFoo",
            ".ObjectMeta.CreationTimestamp.Year",
            "len .Spec",
            "printf `%s` $c.Ports",
            "$c.Ports",
            "$c.LivenessProbe.HTTPGet.Port.IntVal }}{{ $c.LivenessProbe.HTTPGet.Port",
        ];
        let errors = expressions.map(|expression| format!("{expression}: {}", shown(expression)));
        insta::assert_snapshot!(errors.join("\n"), @r#"
        if .Spec.Foo }}{{ end: template "t", line 2, column 9: a v1.PodSpec has no field Foo
        .Spec.hostNetwork: template "t", line 2, column 6: a v1.PodSpec has no field hostNetwork; did you mean HostNetwork?
        $c.Image.Foo: template "t", line 2, column 6: the value has no fields: it is nil, a text, a number, true or false, or a list; test it with `if` or `with` first
        .Spec.DNSConfig.Nameservers: template "t", line 2, column 6: the value has no fields: it is nil, a text, a number, true or false, or a list; test it with `if` or `with` first
        .Foo: template "t", line 2, column 6: a inject.SidecarTemplateData has no field Foo
        .MeshConfig.Foo: template "t", line 2, column 6: a v1alpha1.MeshConfig has no field Foo
        .ProxyConfig.GetFoo: template "t", line 2, column 6: a v1alpha1.ProxyConfig has no field GetFoo
        index .Spec "HostNetwork": template "t", line 2, column 6: index: a v1.PodSpec has fields, not items
        index .ObjectMeta "Labels": template "t", line 2, column 6: index: a v1.ObjectMeta has fields, not items
        eq 1 "1": template "t", line 2, column 6: a int and a string cannot be compared (incompatible types for comparison)
        index .Spec.Volumes 3: template "t", line 2, column 6: there is no item 3
        $c.Resources.Limits.Cpu.AsInt64: template "t", line 2, column 6: the value has no fields: it is nil, a text, a number, true or false, or a list; test it with `if` or `with` first
        $v.EmptyDir.SizeLimit.Value: template "t", line 2, column 6: SizeLimit.Value of a v1.EmptyDirVolumeSource is called on nil; test it with `if` first
        with $c.Resources.Limits.Cpu }}{{ .MilliValue }}{{ end: template "t", line 2, column 40: the value has no fields: it is nil, a text, a number, true or false, or a list; test it with `if` or `with` first
        with $c.Resources.Limits }}{{ .Cpu }}{{ .Gpu }}{{ end: template "t", line 2, column 46: a v1.ResourceList has no field Gpu; did you mean Cpu?
        with $c.Resources.Limits }}{{ .Cpu }}{{ end }}{{ range $k, $v := $c.Resources.Limits }}{{ $v }}{{ end: template "t": it prints a whole v1.ResourceList: name one of its fields; range does not accept it
        range .Spec }}{{ . }}{{ end: template "t": it prints a whole v1.PodSpec: name one of its fields; range does not accept it
        range .Spec }}{{ .Name }}{{ end: template "t", line 2, column 23: the value has no fields: it is nil, a text, a number, true or false, or a list; test it with `if` or `with` first
        .ObjectMeta.GetFoo: template "t", line 2, column 6: a v1.ObjectMeta has no field GetFoo
        .ObjectMeta.CreationTimestamp.Year: template "t", line 2, column 6: the value has no fields: it is nil, a text, a number, true or false, or a list; test it with `if` or `with` first
        len .Spec: template "t", line 2, column 6: len: a v1.PodSpec has no length
        printf `%s` $c.Ports: template "t": it prints a whole v1.ContainerPort: name one of its fields; range does not accept it
        $c.Ports: template "t": it prints a whole v1.ContainerPort: name one of its fields; range does not accept it
        $c.LivenessProbe.HTTPGet.Port.IntVal }}{{ $c.LivenessProbe.HTTPGet.Port: template "t": it prints a whole intstr.IntOrString: name one of its fields; range does not accept it
        "#);
    }
}
