//! Go types that Istio passes to its templates, and into which it parses their output.
//!
//! The folder `tables` has one line for each struct and, indented, one for each of its fields:
//! name in Go, name and options in JSON, type. `kubernetes.txt` and `istio.txt` are generated from
//! the Go modules by `make go-types`; `template.txt` has the structs that are reachable from
//! neither. The build script turns all three into one array of constants.

mod decoding;

use std::ops::Range;

pub use self::decoding::{spell, spell_members};

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

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
                Self::Bool => BOOL_VALUE,
                Self::String => STRING_VALUE,
                Self::Float => DOUBLE_VALUE,
                _ => INT_VALUE,
            }),
            Self::Duration => Some(DURATION),
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
        MESSAGES.contains(&usize::from(self.id))
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
    ALL.iter()
}

/// Returns the Go names of all fields of enumeration type.
pub fn enumerations() -> impl Iterator<Item = &'static str> {
    let fields = ALL[MESSAGES].iter().flat_map(Type::fields);
    fields.filter(|field| matches!(field.kind, FieldKind::Enum(_))).map(|field| field.go)
}

/// Returns the struct at an index of [`all`].
pub fn by_id(id: usize) -> Option<&'static Type> {
    ALL.get(id)
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

/// A pod's metadata.
pub const OBJECT_META: &Type = named("v1.ObjectMeta");
/// A pod's specification.
pub const POD_SPEC: &Type = named("v1.PodSpec");
/// The message of the mesh configuration.
pub const MESH_CONFIG: &Type = named("v1alpha1.MeshConfig");
/// The message of the proxy configuration.
pub const PROXY_CONFIG: &Type = named("v1alpha1.ProxyConfig");
/// The data that Istio passes to its templates.
pub const TEMPLATE_DATA: &Type = named("inject.SidecarTemplateData");
/// The owner's kind.
pub const TYPE_META: &Type = named("v1.TypeMeta");
/// The owner's name.
pub const NAMESPACED_NAME: &Type = named("types.NamespacedName");
/// A port of a probe, for templates that access its parts.
pub const INT_OR_STRING: &Type = named("intstr.IntOrString");
/// A duration of a message, for templates that access its parts.
pub const DURATION: &Type = named("durationpb.Duration");
/// The result of the template function `semver`.
pub const SEMVER: &Type = named("semver.Version");
/// A resource list, for templates that call its methods.
pub const RESOURCE_LIST: &Type = named("v1.ResourceList");

const BOOL_VALUE: &Type = named("wrapperspb.BoolValue");
const STRING_VALUE: &Type = named("wrapperspb.StringValue");
const DOUBLE_VALUE: &Type = named("wrapperspb.DoubleValue");
const INT_VALUE: &Type = named("wrapperspb.Int32Value");

/// Fails the build if the tables have no struct of this name.
const fn named(name: &str) -> &'static Type {
    let mut id = 0;
    while !is_equal(ALL[id].name.as_bytes(), name.as_bytes()) {
        id += 1;
    }
    &ALL[id]
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    match (a, b) {
        ([], []) => true,
        ([first_of_a, a @ ..], [first_of_b, b @ ..]) => {
            *first_of_a == *first_of_b && is_equal(a, b)
        }
        _ => false,
    }
}
