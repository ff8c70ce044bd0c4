//! Methods of Kubernetes types that templates call.
//!
//! The engine's values have no methods. [`chains`](crate::template::rewrite::method_chains) rewrites
//! a field and the methods after it to one name with underscores. The struct gets a member of that
//! name.

use go_types::{Field, FieldKind, Type};
use gtmpl_ng::Value as TemplateValue;
use serde_json::{Map, Value};

use super::json::guarded;
use crate::kubernetes::quantity;

/// A method call on a field, or on the result of another method.
pub(crate) struct Call {
    field: &'static Field,
    /// JSON name of the resource in a `ResourceList`.
    resource: Option<&'static str>,
    method: Option<&'static str>,
}

/// True if the name is a method of `before`, which is a field or a joined name.
pub(crate) fn joins(before: &str, name: &str) -> bool {
    let (field, method) = before.split_once('_').unwrap_or((before, ""));
    match method {
        "" if LISTS.contains(&field) => resource(name).is_some(),
        "" if QUANTITIES.contains(&field) => OF_QUANTITY.contains(&name),
        "" if TIMES.contains(&field) => name == OF_TIME,
        method if LISTS.contains(&field) => {
            resource(method).is_some() && OF_QUANTITY.contains(&name)
        }
        _ => false,
    }
}

impl Call {
    /// Returns the call for a joined name on a struct.
    pub(crate) fn parse(of: &Type, name: &str) -> Option<Self> {
        let (field, methods) = name.split_once('_')?;
        let field = field.strip_prefix("Get").unwrap_or(field);
        let field = of.fields().find(|known| known.go == field)?;
        let (first, second) = methods.split_once('_').unwrap_or((methods, ""));
        let (resource, method) = match field.kind {
            FieldKind::Map(FieldKind::Quantity) => (Some(resource(first)?), of_quantity(second)),
            FieldKind::Quantity | FieldKind::Pointer(FieldKind::Quantity) => {
                (None, of_quantity(first))
            }
            FieldKind::Time | FieldKind::Pointer(FieldKind::Time) => {
                (None, Some(OF_TIME).filter(|name| *name == first))
            }
            _ => return None,
        };
        Some(Self { field, resource, method })
    }

    /// Returns the result of the call on a struct with these fields; `None` for a call on a nil
    /// pointer, which Go rejects.
    pub(crate) fn answer(&self, fields: Option<&Map<String, Value>>) -> Option<TemplateValue> {
        let given = fields.and_then(|fields| fields.get(self.field.json));
        let given = given.filter(|value| !value.is_null());
        match self.field.kind {
            FieldKind::Time | FieldKind::Pointer(FieldKind::Time) => {
                return Some(given.is_none().into());
            }
            FieldKind::Pointer(_) if given.is_none() => return None,
            _ => {}
        }
        let none = Value::from("0");
        let quantity = match self.resource {
            Some(resource) => given.and_then(|list| list.get(resource)).unwrap_or(&none),
            None => given.unwrap_or(&none),
        };
        let number = quantity::parse(quantity).unwrap_or_default();
        Some(match self.method {
            Some("AsApproximateFloat64") => number.into(),
            Some("IsZero") => (number == 0.0).into(),
            Some("MilliValue") => quantity::rounded_up(quantity, 1000)?.into(),
            Some("Sign") if number == 0.0 => 0.into(),
            Some("Sign") => if number > 0.0 { 1 } else { -1 }.into(),
            Some("Value") => quantity::rounded_up(quantity, 1)?.into(),
            _ => {
                quantity::canonical(quantity).map_or_else(|| guarded(quantity), TemplateValue::from)
            }
        })
    }
}

/// Returns the JSON name of the resource that a method of `ResourceList` reads.
fn resource(method: &str) -> Option<&'static str> {
    RESOURCES.iter().find(|(name, _)| *name == method).map(|(_, resource)| *resource)
}

fn of_quantity(method: &str) -> Option<&'static str> {
    OF_QUANTITY.iter().find(|name| **name == method).copied()
}

/// Methods of `v1.ResourceList`, with the JSON names of their resources.
pub(crate) const RESOURCES: [(&str, &str); 5] = [
    ("Cpu", "cpu"),
    ("Memory", "memory"),
    ("Pods", "pods"),
    ("Storage", "storage"),
    ("StorageEphemeral", "ephemeral-storage"),
];

/// Methods of `resource.Quantity` without arguments or side effects.
const OF_QUANTITY: &[&str] =
    &["AsApproximateFloat64", "IsZero", "MilliValue", "Sign", "String", "Value"];

/// Supported method of `v1.Time`.
const OF_TIME: &str = "IsZero";

/// Fields that hold resource lists, quantities and times.
const LISTS: [&str; 3] = ["Limits", "Overhead", "Requests"];
const QUANTITIES: [&str; 2] = ["Divisor", "SizeLimit"];
const TIMES: [&str; 3] = ["CreationTimestamp", "DeletionTimestamp", "GetDeletionTimestamp"];

#[cfg(test)]
mod tests {
    use go_types;

    use super::*;

    #[test]
    fn method_fields_exist_in_the_types() {
        for of in go_types::all() {
            for field in of.fields() {
                let known: &[&str] = match field.kind {
                    _ if of.name == "v1.ResourceList" => continue,
                    FieldKind::Map(FieldKind::Quantity) => &LISTS,
                    FieldKind::Quantity | FieldKind::Pointer(FieldKind::Quantity) => &QUANTITIES,
                    // `Time` belongs to `managedFields`, which a pod under injection does not have.
                    FieldKind::Time | FieldKind::Pointer(FieldKind::Time) if field.go != "Time" => {
                        &TIMES
                    }
                    _ => continue,
                };
                assert!(known.contains(&field.go), "{}.{}", of.name, field.go);
            }
        }
    }
}
