//! The Go types that Istio's templates see and that it reads their output into.

mod istio;
mod kubernetes;

use gtmpl_ng::Value as Datum;

pub(super) use self::istio::{MESH_CONFIG, PROXY_CONFIG};
pub(super) use self::kubernetes::{OBJECT_META, POD_SPEC};
use super::datum::TYPED;
use crate::settings::proxy_field::lower_camel_case;

/// A struct.
pub(super) struct Type {
    /// Its place in [`all`].
    pub(super) id: u16,
    /// Its name with its package, as Go's errors have it.
    pub(super) name: &'static str,
    fields: &'static [Field],
}

/// A field of a struct.
pub(super) struct Field {
    /// Its name in Go.
    pub(super) go: &'static str,
    /// Its name in JSON; empty for an embedded struct.
    pub(super) json: &'static str,
    pub(super) kind: Kind,
    presence: Presence,
}

/// When a field is written as JSON.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Presence {
    Always,
    Embedded,
    UnlessEmpty,
    /// One of several of which a message has one; in Go it is reached by its getter alone.
    OneOf,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// JSON of any form.
    Any,
    Bool,
    /// `google.protobuf.Duration`
    Duration,
    /// Its words in the order of their numbers.
    Enum(&'static [&'static str]),
    Float,
    /// With this many bits.
    Int(u8),
    IntOrString,
    List(&'static Kind),
    Map(&'static Kind),
    Pointer(&'static Kind),
    Quantity,
    String,
    Struct(&'static Type),
    Time,
    /// A scalar that may be absent, in its protobuf wrapper.
    Wrapper(&'static Kind),
}

impl Kind {
    /// What has the fields that a getter of it gives.
    pub(super) fn message(self) -> Option<&'static Type> {
        match self {
            Self::Pointer(Self::Struct(of)) => Some(of),
            Self::Wrapper(kind) => Some(match kind {
                Self::Bool => &BOOL_VALUE,
                Self::String => &STRING_VALUE,
                Self::Float => &DOUBLE_VALUE,
                _ => &INT_VALUE,
            }),
            Self::Duration => Some(&DURATION),
            _ => None,
        }
    }
}

impl Type {
    /// What a value of it has under [`TYPED`]: a text that [`printed_in`] finds, also where a template
    /// takes a struct for a mapping and prints its members one by one.
    pub(super) fn mark(&self) -> Datum {
        Datum::String(format!("{TYPED}:{};", self.id))
    }

    /// Its fields, those of embedded structs in their place.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|field| match field.kind {
            Kind::Struct(embedded) if field.presence == Presence::Embedded => embedded.fields,
            _ => std::slice::from_ref(field),
        })
    }

    /// The structs it embeds.
    pub(super) fn embedded(&self) -> impl Iterator<Item = (&'static str, &'static Type)> {
        self.fields.iter().filter_map(|field| match field.kind {
            Kind::Struct(embedded) if field.presence == Presence::Embedded => {
                Some((field.go, embedded))
            }
            _ => None,
        })
    }

    /// The field of this name in JSON; of a message also by its name in protobuf.
    pub(super) fn field(&self, json: &str) -> Option<&'static Field> {
        let named = |name: &str| self.fields().find(|field| field.json == name);
        named(json).or_else(|| json.contains('_').then(|| named(&lower_camel_case(json))).flatten())
    }

    /// Whether it is a protobuf message, whose fields have getters.
    pub(super) fn is_message(&self) -> bool {
        let id = usize::from(self.id);
        id >= kubernetes::ALL.len() && id < kubernetes::ALL.len() + istio::ALL.len()
    }

    /// Whether its fields have getters, those of `metav1.Object` or of a message.
    pub(super) fn has_getters(&self) -> bool {
        self.is_message() || self.is_object_meta()
    }

    /// Whether it is a pod's metadata.
    pub(super) fn is_object_meta(&self) -> bool {
        self.id == OBJECT_META.id
    }

    /// Whether JSON has the member `Value` in its place.
    pub(super) fn is_wrapper(&self) -> bool {
        self.name.starts_with("wrapperspb.")
    }
}

impl Field {
    /// Whether JSON has it even when it is empty.
    pub(super) fn is_kept(&self) -> bool {
        self.presence == Presence::Always
    }

    /// Whether Go has only a getter for it.
    pub(super) fn is_one_of(&self) -> bool {
        self.presence == Presence::OneOf
    }
}

/// All structs, each at the place of its `id`.
pub(super) fn all() -> impl Iterator<Item = &'static Type> {
    kubernetes::ALL.iter().chain(&istio::ALL).chain(&DATA).copied()
}

/// The struct that a datum is a value of.
pub(super) fn of(datum: &Datum) -> Option<&'static Type> {
    let Datum::Object(members) = datum else { return None };
    let Some(Datum::String(mark)) = members.get(TYPED) else { return None };
    by_id(mark.strip_prefix(TYPED)?.strip_prefix(':')?.strip_suffix(';')?.parse().ok()?)
}

/// The Go names of all fields that hold an enumeration.
pub(super) fn enumerations() -> impl Iterator<Item = &'static str> {
    let fields = istio::ALL.iter().flat_map(|of| of.fields());
    fields.filter(|field| matches!(field.kind, Kind::Enum(_))).map(|field| field.go)
}

/// The first struct that a text holds in the engine's own notation, which nobody wants in a pod.
pub(super) fn printed_in(text: &str) -> Option<&'static Type> {
    let mut id = text.split_once(TYPED)?.1.strip_prefix(':')?;
    // Its key stands in front of the mark.
    id = id.strip_prefix(TYPED).and_then(|id| id.strip_prefix(':')).unwrap_or(id);
    by_id(id[..id.find(|c: char| !c.is_ascii_digit())?].parse().ok()?)
}

/// The struct at a place of [`all`].
fn by_id(id: usize) -> Option<&'static Type> {
    all().nth(id)
}

const fn kept(go: &'static str, json: &'static str, kind: Kind) -> Field {
    Field { go, json, kind, presence: Presence::Always }
}

const fn omitted(go: &'static str, json: &'static str, kind: Kind) -> Field {
    Field { go, json, kind, presence: Presence::UnlessEmpty }
}

const fn one_of(go: &'static str, json: &'static str, kind: Kind) -> Field {
    Field { go, json, kind, presence: Presence::OneOf }
}

const fn embedded(go: &'static str, of: &'static Type) -> Field {
    Field { go, json: "", kind: Kind::Struct(of), presence: Presence::Embedded }
}

const STRINGS: Kind = Kind::List(&Kind::String);
const STRING_MAP: Kind = Kind::Map(&Kind::String);

/// What Istio gives to its templates.
pub(super) static TEMPLATE_DATA: Type = Type {
    id: 208,
    name: "inject.SidecarTemplateData",
    fields: &[
        kept("CompliancePolicy", "CompliancePolicy", Kind::String),
        kept("DeploymentMeta", "DeploymentMeta", Kind::Any),
        kept("InboundTrafficPolicyMode", "InboundTrafficPolicyMode", Kind::String),
        kept("MeshConfig", "MeshConfig", Kind::Any),
        kept("NativeSidecars", "NativeSidecars", Kind::Bool),
        kept("ObjectMeta", "ObjectMeta", Kind::Any),
        kept("ProxyConfig", "ProxyConfig", Kind::Any),
        kept("ProxyGID", "ProxyGID", Kind::Int(64)),
        kept("ProxyImage", "ProxyImage", Kind::String),
        kept("ProxyInitImage", "ProxyInitImage", Kind::String),
        kept("ProxyUID", "ProxyUID", Kind::Int(64)),
        kept("Revision", "Revision", Kind::String),
        kept("Spec", "Spec", Kind::Any),
        kept("TypeMeta", "TypeMeta", Kind::Any),
        kept("Values", "Values", Kind::Any),
    ],
};

/// The owner's kind.
pub(super) static TYPE_META: Type = Type {
    id: 209,
    name: "v1.TypeMeta",
    fields: &[
        omitted("Kind", "kind", Kind::String),
        omitted("APIVersion", "apiVersion", Kind::String),
    ],
};

/// The owner's name.
pub(super) static NAMESPACED_NAME: Type = Type {
    id: 210,
    name: "types.NamespacedName",
    fields: &[kept("Namespace", "Namespace", Kind::String), kept("Name", "Name", Kind::String)],
};

/// A port of a probe, where a template asks for its parts.
pub(super) static INT_OR_STRING: Type = Type {
    id: 211,
    name: "intstr.IntOrString",
    fields: &[
        kept("Type", "Type", Kind::Int(64)),
        kept("IntVal", "IntVal", Kind::Int(32)),
        kept("StrVal", "StrVal", Kind::String),
    ],
};

/// Wrapped scalars.
static BOOL_VALUE: Type = wrapper(212, "wrapperspb.BoolValue", &[value(Kind::Bool)]);
static STRING_VALUE: Type = wrapper(215, "wrapperspb.StringValue", &[value(Kind::String)]);
static DOUBLE_VALUE: Type = wrapper(216, "wrapperspb.DoubleValue", &[value(Kind::Float)]);
static INT_VALUE: Type = wrapper(217, "wrapperspb.Int32Value", &[value(Kind::Int(32))]);

const fn wrapper(id: u16, name: &'static str, fields: &'static [Field]) -> Type {
    Type { id, name, fields }
}

const fn value(kind: Kind) -> Field {
    kept("Value", "value", kind)
}

/// A duration of a message, where a template asks for its parts.
pub(super) static DURATION: Type = Type {
    id: 213,
    name: "durationpb.Duration",
    fields: &[kept("Seconds", "seconds", Kind::Int(64)), kept("Nanos", "nanos", Kind::Int(32))],
};

/// What `semver` gives.
pub(super) static SEMVER: Type = Type {
    id: 214,
    name: "semver.Version",
    fields: &[
        kept("Major", "Major", Kind::Int(64)),
        kept("Minor", "Minor", Kind::Int(64)),
        kept("Patch", "Patch", Kind::Int(64)),
        kept("Prerelease", "Prerelease", Kind::String),
        kept("Metadata", "Metadata", Kind::String),
        kept("Original", "Original", Kind::String),
        kept("String", "String", Kind::String),
    ],
};

/// A list of resources, where a template asks it for one by its method.
pub(super) static RESOURCE_LIST: Type = Type {
    id: 218,
    name: "v1.ResourceList",
    fields: &[
        kept("Cpu", "cpu", Kind::Quantity),
        kept("Memory", "memory", Kind::Quantity),
        kept("Pods", "pods", Kind::Quantity),
        kept("Storage", "storage", Kind::Quantity),
        kept("StorageEphemeral", "ephemeral-storage", Kind::Quantity),
    ],
};

static DATA: [&Type; 11] = [
    &TEMPLATE_DATA,
    &TYPE_META,
    &NAMESPACED_NAME,
    &INT_OR_STRING,
    &BOOL_VALUE,
    &DURATION,
    &SEMVER,
    &STRING_VALUE,
    &DOUBLE_VALUE,
    &INT_VALUE,
    &RESOURCE_LIST,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_struct_stands_at_its_place() {
        for (place, of) in all().enumerate() {
            assert_eq!(usize::from(of.id), place, "{}", of.name);
        }
    }
}
