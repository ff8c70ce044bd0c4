//! What a template of the configuration sees: the pod and the settings under Go's names.

use std::collections::HashMap;

use gtmpl_ng::Value as Datum;
use serde_json::{Map, Value};

use super::datum::{JSON, OTEL, TYPED, document, guarded};
use super::{Context, go_names, guard, image, otel};
use crate::settings::mesh_config::InboundTrafficPolicy;

/// The data of one pod.
///
/// Text that comes from the pod is guarded, see [`guard`].
pub(super) fn of(context: &Context<'_>) -> Datum {
    let settings = context.settings;
    let workload = context.workload;
    let pod = context.pod;
    let mesh = &settings.mesh;
    let inbound = match mesh.inbound_traffic_policy {
        InboundTrafficPolicy::Localhost => "localhost",
        InboundTrafficPolicy::Passthrough => "passthrough",
    };
    map([
        (
            "TypeMeta",
            map([("Kind", text(&workload.kind)), ("APIVersion", text(&workload.api_version))]),
        ),
        (
            "DeploymentMeta",
            map([("Name", text(&workload.name)), ("Namespace", text(&workload.namespace))]),
        ),
        ("ObjectMeta", object_meta(context)),
        ("Spec", typed("spec", &pod["spec"], &POD_SPEC)),
        ("ProxyConfig", proxy_config(context)),
        ("MeshConfig", mesh_config(context)),
        ("Values", settings.templates.values().clone()),
        ("Revision", Datum::from(&settings.process.revision)),
        ("NativeSidecars", Datum::from(context.native_sidecars)),
        ("ProxyImage", text(&image::of_proxy(context))),
        ("ProxyInitImage", text(&image::of_init(context))),
        ("ProxyUID", Datum::from(context.identity.uid)),
        ("ProxyGID", Datum::from(context.identity.gid)),
        ("InboundTrafficPolicyMode", Datum::from(inbound)),
        ("CompliancePolicy", Datum::from(&settings.process.compliance_policy)),
    ])
}

fn object_meta(context: &Context<'_>) -> Datum {
    let metadata = &context.pod["metadata"];
    let mut fields = typed("metadata", metadata, &OBJECT_META);
    let own = metadata["namespace"].as_str().filter(|own| !own.is_empty());
    if let (None, Datum::Map(fields)) = (own, &mut fields) {
        fields.insert("Namespace".to_owned(), text(context.namespace));
    }
    fields
}

/// A value of a Kubernetes type that stands under this field, its own fields under Go's names.
fn typed(field: &str, value: &Value, zero: &[(&str, Zero)]) -> Datum {
    let mut fields: HashMap<_, _> =
        zero.iter().map(|(name, zero)| ((*name).to_owned(), zero.datum())).collect();
    if let Value::Object(members) = value {
        fields.insert(TYPED.to_owned(), Datum::Bool(true));
        let members = members.iter().filter(|(_, value)| !value.is_null());
        fields
            .extend(members.map(|(name, value)| (go_names::of_field(name), of_type(name, value))));
    } else if !value.is_null() {
        return of_type(field, value);
    }
    Datum::Map(fields)
}

fn of_type(field: &str, value: &Value) -> Datum {
    match value {
        Value::Object(_) if STRING_MAPS.contains(&field) => guarded(value),
        Value::Object(_) => typed(field, value, &[]),
        Value::Array(items) => {
            let zero: &[_] = match field {
                "containers" | "initContainers" | "ephemeralContainers" => &CONTAINER,
                "env" => &ENV_VAR,
                "ports" => &CONTAINER_PORT,
                "volumeMounts" => &VOLUME_MOUNT,
                _ => &[],
            };
            Datum::Array(items.iter().map(|item| typed("", item, zero)).collect())
        }
        scalar => guarded(scalar),
    }
}

/// Whether a field of a Kubernetes type is what Go has for one that is not there.
pub(super) fn is_unset(name: &str, value: &Datum) -> bool {
    let tables: [&[(&str, Zero)]; 6] =
        [&OBJECT_META, &POD_SPEC, &CONTAINER, &CONTAINER_PORT, &ENV_VAR, &VOLUME_MOUNT];
    let mut zeros = tables.into_iter().flatten().filter(|(field, _)| *field == name);
    zeros.any(|(_, zero)| zero.datum() == *value)
}

fn proxy_config(context: &Context<'_>) -> Datum {
    let mut message = message(context.proxy_config.fields());
    if let Datum::Map(members) = &mut message {
        let mode = Datum::from(context.proxy_config.interception_mode());
        members.insert("InterceptionMode".to_owned(), mode);
        members.entry("ProxyMetadata".to_owned()).or_insert_with(|| map([]));
        members.insert(JSON.to_owned(), Datum::from(context.proxy_config.to_json()));
    }
    message
}

fn mesh_config(context: &Context<'_>) -> Datum {
    let mesh = &context.settings.mesh;
    let asks = otel::asks(&mesh.extension_providers);
    let providers = mesh.extension_providers.iter().map(document).collect();
    let known = map([
        ("ProxyListenPort", Datum::from(mesh.proxy_listen_port)),
        ("ProxyInboundListenPort", Datum::from(mesh.proxy_inbound_listen_port)),
        ("TrustDomain", Datum::from(&mesh.trust_domain)),
        ("EnablePrometheusMerge", wrapper(Datum::from(mesh.enable_prometheus_merge))),
        ("DefaultConfig", message(mesh.default_config.fields())),
        (OTEL, if asks { Datum::Array(providers) } else { Datum::Nil }),
    ]);
    match (message(&mesh.document), known) {
        (Datum::Map(mut members), Datum::Map(known)) => {
            members.extend(known);
            Datum::Map(members)
        }
        (_, known) => known,
    }
}

/// A message of Istio's API: each field under its Go name, and under the name of its getter.
fn message(fields: &Map<String, Value>) -> Datum {
    let mut members = HashMap::with_capacity(2 * fields.len());
    for (name, value) in fields {
        let go = go_names::of_field(name);
        let datum = match value {
            Value::Object(_) if STRING_MAPS.contains(&name.as_str()) => guarded(value),
            Value::Object(fields) => message(fields),
            scalar if WRAPPED.contains(&name.as_str()) => wrapper(guarded(scalar)),
            other => guarded(other),
        };
        members.insert(format!("Get{go}"), datum.clone());
        members.insert(go, datum);
    }
    Datum::Map(members)
}

/// A scalar that may be absent, in its protobuf wrapper.
fn wrapper(value: Datum) -> Datum {
    map([("Value", value.clone()), ("GetValue", value)])
}

fn text(text: &str) -> Datum {
    Datum::String(guard::guarded(text).into_owned())
}

fn map<const N: usize>(members: [(&str, Datum); N]) -> Datum {
    Datum::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// What Go has for a field that is not there.
#[derive(Clone, Copy)]
enum Zero {
    Empty,
    False,
    List,
    Mapping,
    Number,
}

impl Zero {
    fn datum(self) -> Datum {
        match self {
            Self::Empty => Datum::from(""),
            Self::False => Datum::from(false),
            Self::List => Datum::Array(Vec::new()),
            Self::Mapping => map([]),
            Self::Number => Datum::from(0),
        }
    }
}

const OBJECT_META: [(&str, Zero); 6] = [
    ("Annotations", Zero::Mapping),
    ("GenerateName", Zero::Empty),
    ("Labels", Zero::Mapping),
    ("Name", Zero::Empty),
    ("Namespace", Zero::Empty),
    ("OwnerReferences", Zero::List),
];

const POD_SPEC: [(&str, Zero); 21] = [
    ("Containers", Zero::List),
    ("DNSPolicy", Zero::Empty),
    ("DeprecatedServiceAccount", Zero::Empty),
    ("EphemeralContainers", Zero::List),
    ("HostAliases", Zero::List),
    ("HostIPC", Zero::False),
    ("HostNetwork", Zero::False),
    ("HostPID", Zero::False),
    ("Hostname", Zero::Empty),
    ("ImagePullSecrets", Zero::List),
    ("InitContainers", Zero::List),
    ("NodeName", Zero::Empty),
    ("NodeSelector", Zero::Mapping),
    ("PriorityClassName", Zero::Empty),
    ("RestartPolicy", Zero::Empty),
    ("SchedulerName", Zero::Empty),
    ("ServiceAccountName", Zero::Empty),
    ("Subdomain", Zero::Empty),
    ("Tolerations", Zero::List),
    ("TopologySpreadConstraints", Zero::List),
    ("Volumes", Zero::List),
];

const CONTAINER: [(&str, Zero); 13] = [
    ("Args", Zero::List),
    ("Command", Zero::List),
    ("Env", Zero::List),
    ("EnvFrom", Zero::List),
    ("Image", Zero::Empty),
    ("ImagePullPolicy", Zero::Empty),
    ("Name", Zero::Empty),
    ("Ports", Zero::List),
    ("Stdin", Zero::False),
    ("TTY", Zero::False),
    ("VolumeDevices", Zero::List),
    ("VolumeMounts", Zero::List),
    ("WorkingDir", Zero::Empty),
];

const CONTAINER_PORT: [(&str, Zero); 5] = [
    ("ContainerPort", Zero::Number),
    ("HostIP", Zero::Empty),
    ("HostPort", Zero::Number),
    ("Name", Zero::Empty),
    ("Protocol", Zero::Empty),
];

const ENV_VAR: [(&str, Zero); 2] = [("Name", Zero::Empty), ("Value", Zero::Empty)];

const VOLUME_MOUNT: [(&str, Zero); 4] = [
    ("MountPath", Zero::Empty),
    ("Name", Zero::Empty),
    ("ReadOnly", Zero::False),
    ("SubPath", Zero::Empty),
];

/// Fields whose keys are the user's.
const STRING_MAPS: [&str; 9] = [
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "overhead",
    "proxyMetadata",
    "requests",
    "volumeAttributes",
];

/// Fields of `ProxyConfig` that are protobuf wrappers.
const WRAPPED: [&str; 2] = ["concurrency", "holdApplicationUntilProxyStarts"];
