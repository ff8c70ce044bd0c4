//! What a template of the configuration sees: the pod and the settings as values of Go's types.

use std::collections::HashMap;
use std::sync::LazyLock;

use gtmpl_ng::Value as Datum;
use serde_json::{Map, Value, json};

use super::asked::Asked;
use super::datum::{JSON, OTEL, document};
use super::go_types::{
    MESH_CONFIG, NAMESPACED_NAME, OBJECT_META, POD_SPEC, PROXY_CONFIG, TEMPLATE_DATA, TYPE_META,
    Type,
};
use super::go_values::{self, of_struct};
use super::{Context, guard, image, otel};
use crate::settings::mesh_config::{InboundTrafficPolicy, MeshConfig};

/// The data of one pod.
///
/// Text that comes from the pod is guarded, see [`guard`].
pub(super) fn of(context: &Context<'_>) -> Datum {
    let settings = context.settings;
    let workload = context.workload;
    let asked = settings.templates.asked();
    let mesh = &settings.mesh;
    let inbound = match mesh.inbound_traffic_policy {
        InboundTrafficPolicy::Localhost => "localhost",
        InboundTrafficPolicy::Passthrough => "passthrough",
    };
    let kind = [("Kind", text(&workload.kind)), ("APIVersion", text(&workload.api_version))];
    let name = [("Name", text(&workload.name)), ("Namespace", text(&workload.namespace))];
    value(
        &TEMPLATE_DATA,
        [
            ("TypeMeta", value(&TYPE_META, kind)),
            ("DeploymentMeta", value(&NAMESPACED_NAME, name)),
            ("ObjectMeta", object_meta(context, asked)),
            ("Spec", of_struct(&POD_SPEC, members(&context.pod["spec"]), asked)),
            ("ProxyConfig", proxy_config(context, asked)),
            ("MeshConfig", mesh_config(mesh, asked)),
            ("Values", settings.templates.values().clone()),
            ("Revision", Datum::from(&settings.process.revision)),
            ("NativeSidecars", Datum::from(context.native_sidecars)),
            ("ProxyImage", text(&image::of_proxy(context))),
            ("ProxyInitImage", text(&image::of_init(context))),
            ("ProxyUID", Datum::from(context.identity.uid)),
            ("ProxyGID", Datum::from(context.identity.gid)),
            ("InboundTrafficPolicyMode", Datum::from(inbound)),
            ("CompliancePolicy", Datum::from(&settings.process.compliance_policy)),
        ],
    )
}

fn object_meta(context: &Context<'_>, asked: &Asked) -> Datum {
    let metadata = &context.pod["metadata"];
    let mut fields = of_struct(&OBJECT_META, members(metadata), asked);
    let own = metadata["namespace"].as_str().filter(|own| !own.is_empty());
    if let (None, Datum::Object(fields)) = (own, &mut fields) {
        fields.insert("Namespace".to_owned(), text(context.namespace));
    }
    fields
}

fn proxy_config(context: &Context<'_>, asked: &Asked) -> Datum {
    let mut message = of_struct(&PROXY_CONFIG, Some(context.proxy_config.fields()), asked);
    if let Datum::Object(members) = &mut message {
        members.insert(JSON.to_owned(), Datum::from(context.proxy_config.to_json()));
    }
    message
}

fn mesh_config(mesh: &MeshConfig, asked: &Asked) -> Datum {
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
    let mut message = of_struct(&MESH_CONFIG, Some(&fields), asked);
    if let Datum::Object(members) = &mut message {
        let asks = otel::asks(&mesh.extension_providers);
        let providers = mesh.extension_providers.iter().map(document).collect();
        let otel = if asks { Datum::Array(providers) } else { Datum::Nil };
        members.insert(OTEL.to_owned(), otel);
    }
    message
}

fn members(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}

fn text(text: &str) -> Datum {
    Datum::String(guard::guarded(text).into_owned())
}

/// A value of a struct all of whose fields are known.
fn value<const N: usize>(of: &Type, fields: [(&str, Datum); N]) -> Datum {
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
    let fields: HashMap<_, _> = fields.chain([go_values::typed(of)]).collect();
    Datum::Object(fields)
}

/// `DefaultMeshConfig` of `istio/pkg/config/mesh`, but for what [`MeshConfig`] knows itself.
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
