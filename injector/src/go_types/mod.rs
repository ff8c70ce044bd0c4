//! The Go types that Istio's templates see and that it reads their output into.

mod decoding;
mod istio;
mod kubernetes;

pub(crate) use self::decoding::{spell, spell_members};
pub(crate) use self::istio::{MESH_CONFIG, PROXY_CONFIG};
pub(crate) use self::kubernetes::{OBJECT_META, POD_SPEC};

/// A struct.
pub(crate) struct Type {
    /// Its place in [`all`].
    pub(crate) id: u16,
    /// Its name with its package, as Go's errors have it.
    pub(crate) name: &'static str,
    fields: &'static [Field],
}

/// A field of a struct.
pub(crate) struct Field {
    /// Its name in Go.
    pub(crate) go: &'static str,
    /// Its name in JSON; empty for an embedded struct.
    pub(crate) json: &'static str,
    pub(crate) kind: Kind,
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
pub(crate) enum Kind {
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
    /// Of 32 bits, without a sign.
    Unsigned,
    /// A scalar that may be absent, in its protobuf wrapper.
    Wrapper(&'static Kind),
}

impl Kind {
    /// What has the fields that a getter of it gives.
    pub(crate) fn message(self) -> Option<&'static Type> {
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
    /// Its fields, those of embedded structs in their place.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|field| match field.kind {
            Kind::Struct(embedded) if field.presence == Presence::Embedded => embedded.fields,
            _ => std::slice::from_ref(field),
        })
    }

    /// The structs it embeds.
    pub(crate) fn embedded(&self) -> impl Iterator<Item = (&'static str, &'static Type)> {
        self.fields.iter().filter_map(|field| match field.kind {
            Kind::Struct(embedded) if field.presence == Presence::Embedded => {
                Some((field.go, embedded))
            }
            _ => None,
        })
    }

    /// The field of this name in JSON; of a message also by its name in protobuf.
    pub(crate) fn field(&self, json: &str) -> Option<&'static Field> {
        let named = |name: &str| self.fields().find(|field| field.json == name);
        named(json).or_else(|| json.contains('_').then(|| named(&lower_camel_case(json))).flatten())
    }

    /// Whether it is a protobuf message, whose fields have getters.
    pub(crate) fn is_message(&self) -> bool {
        let id = usize::from(self.id);
        id >= kubernetes::ALL.len() && id < kubernetes::ALL.len() + istio::ALL.len()
    }

    /// Whether its fields have getters, those of `metav1.Object` or of a message.
    pub(crate) fn has_getters(&self) -> bool {
        self.is_message() || self.is_object_meta()
    }

    /// Whether it is a pod's metadata.
    pub(crate) fn is_object_meta(&self) -> bool {
        self.id == OBJECT_META.id
    }

    /// Whether JSON has the member `Value` in its place.
    pub(crate) fn is_wrapper(&self) -> bool {
        self.name.starts_with("wrapperspb.")
    }
}

impl Field {
    /// Whether JSON has it even when it is empty.
    pub(crate) fn is_kept(&self) -> bool {
        self.presence == Presence::Always
    }

    /// Whether Go has only a getter for it.
    pub(crate) fn is_one_of(&self) -> bool {
        self.presence == Presence::OneOf
    }
}

/// All structs, each at the place of its `id`.
pub(crate) fn all() -> impl Iterator<Item = &'static Type> {
    kubernetes::ALL.iter().chain(&istio::ALL).chain(&DATA).copied()
}

/// The Go names of all fields that hold an enumeration.
pub(crate) fn enumerations() -> impl Iterator<Item = &'static str> {
    let fields = istio::ALL.iter().flat_map(|of| of.fields());
    fields.filter(|field| matches!(field.kind, Kind::Enum(_))).map(|field| field.go)
}

/// The struct at a place of [`all`].
pub(crate) fn by_id(id: usize) -> Option<&'static Type> {
    all().nth(id)
}

/// The name of a field in protobuf's JSON, from its own name in protobuf.
pub(crate) fn lower_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
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
pub(crate) static TEMPLATE_DATA: Type = Type {
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
pub(crate) static TYPE_META: Type = Type {
    id: 209,
    name: "v1.TypeMeta",
    fields: &[
        omitted("Kind", "kind", Kind::String),
        omitted("APIVersion", "apiVersion", Kind::String),
    ],
};

/// The owner's name.
pub(crate) static NAMESPACED_NAME: Type = Type {
    id: 210,
    name: "types.NamespacedName",
    fields: &[kept("Namespace", "Namespace", Kind::String), kept("Name", "Name", Kind::String)],
};

/// A port of a probe, where a template asks for its parts.
pub(crate) static INT_OR_STRING: Type = Type {
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
pub(crate) static DURATION: Type = Type {
    id: 213,
    name: "durationpb.Duration",
    fields: &[kept("Seconds", "seconds", Kind::Int(64)), kept("Nanos", "nanos", Kind::Int(32))],
};

/// What `semver` gives.
pub(crate) static SEMVER: Type = Type {
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
pub(crate) static RESOURCE_LIST: Type = Type {
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
