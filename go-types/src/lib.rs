//! Go types that Istio passes to its templates, and into which it parses their output.

mod decoding;
mod istio;
mod kubernetes;

pub use self::decoding::{spell, spell_members};
pub use self::istio::{MESH_CONFIG, PROXY_CONFIG};
pub use self::kubernetes::{OBJECT_META, POD_SPEC};

/// A Go struct.
pub struct Type {
    /// Its index in [`all`].
    pub id: u16,
    /// Its name with its package, as in Go's errors.
    pub name: &'static str,
    fields: &'static [Field],
}

/// A field of a struct.
pub struct Field {
    /// Its name in Go.
    pub go: &'static str,
    /// Its name in JSON; empty for an embedded struct.
    pub json: &'static str,
    /// Its type.
    pub kind: FieldKind,
    presence: Presence,
}

/// Condition under which a field is written as JSON.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Presence {
    Always,
    Embedded,
    UnlessEmpty,
    /// Member of a protobuf `oneof`; Go reaches it only by its getter.
    OneOf,
}

/// Type of a field's value.
#[derive(Clone, Copy)]
pub enum FieldKind {
    /// Any JSON.
    Any,
    /// A boolean.
    Bool,
    /// `google.protobuf.Duration`
    Duration,
    /// An enumeration with its names in the order of their numbers.
    Enum(&'static [&'static str]),
    /// A floating-point number.
    Float,
    /// An integer with this number of bits.
    Int(u8),
    /// Kubernetes' `intstr.IntOrString`.
    IntOrString,
    /// A slice.
    List(&'static FieldKind),
    /// A map with strings as keys.
    Map(&'static FieldKind),
    /// A pointer.
    Pointer(&'static FieldKind),
    /// Kubernetes' `resource.Quantity`.
    Quantity,
    /// A string.
    String,
    /// A struct.
    Struct(&'static Type),
    /// Kubernetes' `metav1.Time`.
    Time,
    /// Unsigned 32-bit integer.
    Unsigned,
    /// A scalar that may be absent, in its protobuf wrapper.
    Wrapper(&'static FieldKind),
}

impl FieldKind {
    /// Returns the struct whose fields the getter's result has.
    pub fn message(self) -> Option<&'static Type> {
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
    /// Returns its fields, with those of embedded structs in their place.
    pub fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|field| match field.kind {
            FieldKind::Struct(embedded) if field.presence == Presence::Embedded => embedded.fields,
            _ => std::slice::from_ref(field),
        })
    }

    /// Returns the embedded structs by name.
    pub fn embedded(&self) -> impl Iterator<Item = (&'static str, &'static Type)> {
        self.fields.iter().filter_map(|field| match field.kind {
            FieldKind::Struct(embedded) if field.presence == Presence::Embedded => {
                Some((field.go, embedded))
            }
            _ => None,
        })
    }

    /// Returns the field with this JSON name. A message's field is also found by its original
    /// protobuf name.
    pub fn field(&self, json: &str) -> Option<&'static Field> {
        let named = |name: &str| self.fields().find(|field| field.json == name);
        named(json).or_else(|| json.contains('_').then(|| named(&lower_camel_case(json))).flatten())
    }

    /// True for a protobuf message, whose fields have getters.
    pub fn is_message(&self) -> bool {
        let id = usize::from(self.id);
        id >= kubernetes::ALL.len() && id < kubernetes::ALL.len() + istio::ALL.len()
    }

    /// True if its fields have getters: those of `metav1.Object` or of a message.
    pub fn has_getters(&self) -> bool {
        self.is_message() || self.is_object_meta()
    }

    /// True for a pod's metadata.
    pub fn is_object_meta(&self) -> bool {
        self.id == OBJECT_META.id
    }

    /// True if JSON has the member `Value` in its place.
    pub fn is_wrapper(&self) -> bool {
        self.name.starts_with("wrapperspb.")
    }
}

impl Field {
    /// True if JSON has the field even if it is empty.
    pub fn is_kept(&self) -> bool {
        self.presence == Presence::Always
    }

    /// True if Go has only a getter for the field.
    pub fn is_one_of(&self) -> bool {
        self.presence == Presence::OneOf
    }
}

/// Returns all structs, each at the index of its `id`.
pub fn all() -> impl Iterator<Item = &'static Type> {
    kubernetes::ALL.iter().chain(&istio::ALL).chain(&DATA).copied()
}

/// Returns the Go names of all fields of enumeration type.
pub fn enumerations() -> impl Iterator<Item = &'static str> {
    let fields = istio::ALL.iter().flat_map(|of| of.fields());
    fields.filter(|field| matches!(field.kind, FieldKind::Enum(_))).map(|field| field.go)
}

/// Returns the struct at an index of [`all`].
pub fn by_id(id: usize) -> Option<&'static Type> {
    all().nth(id)
}

/// Returns the protobuf JSON name of a field from its original protobuf name.
pub fn lower_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

const fn kept(go: &'static str, json: &'static str, kind: FieldKind) -> Field {
    Field { go, json, kind, presence: Presence::Always }
}

const fn omitted(go: &'static str, json: &'static str, kind: FieldKind) -> Field {
    Field { go, json, kind, presence: Presence::UnlessEmpty }
}

const fn one_of(go: &'static str, json: &'static str, kind: FieldKind) -> Field {
    Field { go, json, kind, presence: Presence::OneOf }
}

const fn embedded(go: &'static str, of: &'static Type) -> Field {
    Field { go, json: "", kind: FieldKind::Struct(of), presence: Presence::Embedded }
}

const STRINGS: FieldKind = FieldKind::List(&FieldKind::String);
const STRING_MAP: FieldKind = FieldKind::Map(&FieldKind::String);

/// The data that Istio passes to its templates.
pub static TEMPLATE_DATA: Type = Type {
    id: 208,
    name: "inject.SidecarTemplateData",
    fields: &[
        kept("CompliancePolicy", "CompliancePolicy", FieldKind::String),
        kept("DeploymentMeta", "DeploymentMeta", FieldKind::Any),
        kept("InboundTrafficPolicyMode", "InboundTrafficPolicyMode", FieldKind::String),
        kept("MeshConfig", "MeshConfig", FieldKind::Any),
        kept("NativeSidecars", "NativeSidecars", FieldKind::Bool),
        kept("ObjectMeta", "ObjectMeta", FieldKind::Any),
        kept("ProxyConfig", "ProxyConfig", FieldKind::Any),
        kept("ProxyGID", "ProxyGID", FieldKind::Int(64)),
        kept("ProxyImage", "ProxyImage", FieldKind::String),
        kept("ProxyInitImage", "ProxyInitImage", FieldKind::String),
        kept("ProxyUID", "ProxyUID", FieldKind::Int(64)),
        kept("Revision", "Revision", FieldKind::String),
        kept("Spec", "Spec", FieldKind::Any),
        kept("TypeMeta", "TypeMeta", FieldKind::Any),
        kept("Values", "Values", FieldKind::Any),
    ],
};

/// The owner's kind.
pub static TYPE_META: Type = Type {
    id: 209,
    name: "v1.TypeMeta",
    fields: &[
        omitted("Kind", "kind", FieldKind::String),
        omitted("APIVersion", "apiVersion", FieldKind::String),
    ],
};

/// The owner's name.
pub static NAMESPACED_NAME: Type = Type {
    id: 210,
    name: "types.NamespacedName",
    fields: &[
        kept("Namespace", "Namespace", FieldKind::String),
        kept("Name", "Name", FieldKind::String),
    ],
};

/// A port of a probe, for templates that access its parts.
pub static INT_OR_STRING: Type = Type {
    id: 211,
    name: "intstr.IntOrString",
    fields: &[
        kept("Type", "Type", FieldKind::Int(64)),
        kept("IntVal", "IntVal", FieldKind::Int(32)),
        kept("StrVal", "StrVal", FieldKind::String),
    ],
};

/// Wrapped scalars.
static BOOL_VALUE: Type = wrapper(212, "wrapperspb.BoolValue", &[value(FieldKind::Bool)]);
static STRING_VALUE: Type = wrapper(215, "wrapperspb.StringValue", &[value(FieldKind::String)]);
static DOUBLE_VALUE: Type = wrapper(216, "wrapperspb.DoubleValue", &[value(FieldKind::Float)]);
static INT_VALUE: Type = wrapper(217, "wrapperspb.Int32Value", &[value(FieldKind::Int(32))]);

const fn wrapper(id: u16, name: &'static str, fields: &'static [Field]) -> Type {
    Type { id, name, fields }
}

const fn value(kind: FieldKind) -> Field {
    kept("Value", "value", kind)
}

/// A duration of a message, for templates that access its parts.
pub static DURATION: Type = Type {
    id: 213,
    name: "durationpb.Duration",
    fields: &[
        kept("Seconds", "seconds", FieldKind::Int(64)),
        kept("Nanos", "nanos", FieldKind::Int(32)),
    ],
};

/// The result of the template function `semver`.
pub static SEMVER: Type = Type {
    id: 214,
    name: "semver.Version",
    fields: &[
        kept("Major", "Major", FieldKind::Int(64)),
        kept("Minor", "Minor", FieldKind::Int(64)),
        kept("Patch", "Patch", FieldKind::Int(64)),
        kept("Prerelease", "Prerelease", FieldKind::String),
        kept("Metadata", "Metadata", FieldKind::String),
        kept("Original", "Original", FieldKind::String),
        kept("String", "String", FieldKind::String),
    ],
};

/// A resource list, for templates that call its methods.
pub static RESOURCE_LIST: Type = Type {
    id: 218,
    name: "v1.ResourceList",
    fields: &[
        kept("Cpu", "cpu", FieldKind::Quantity),
        kept("Memory", "memory", FieldKind::Quantity),
        kept("Pods", "pods", FieldKind::Quantity),
        kept("Storage", "storage", FieldKind::Quantity),
        kept("StorageEphemeral", "ephemeral-storage", FieldKind::Quantity),
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
    fn struct_ids_equal_their_index() {
        for (place, of) in all().enumerate() {
            assert_eq!(usize::from(of.id), place, "{}", of.name);
        }
    }
}
