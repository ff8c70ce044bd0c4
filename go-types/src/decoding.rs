//! Case-insensitive field names, as in Go's `encoding/json`.

use serde_json::{Map, Value};

use crate::{Field, FieldKind, Type};

impl Type {
    /// Returns the field that Go's decoder fills from a member of this name: an exact match, else a
    /// match in any letter case.
    pub fn decoded(&self, name: &str) -> Option<&'static Field> {
        let exact = self.fields().find(|field| field.json == name);
        exact.or_else(|| self.fields().find(|field| folds_to(name, field.json)))
    }
}

/// Renames the members of a JSON value to the spelling of the Kubernetes API, which accepts no
/// other: `readonly` becomes `readOnly`. Unknown members stay as they are.
///
/// If a field has two spellings, the later one in byte order counts, because Istio's templates
/// write an object in that order.
pub fn spell(kind: FieldKind, value: &mut Value) {
    match (kind, value) {
        (FieldKind::Pointer(kind), value) => spell(*kind, value),
        (FieldKind::List(kind), Value::Array(items)) => {
            for item in items {
                spell(*kind, item);
            }
        }
        (FieldKind::Map(kind), Value::Object(members)) => {
            for member in members.values_mut() {
                spell(*kind, member);
            }
        }
        (FieldKind::Struct(of), Value::Object(members)) => {
            rename(members, |name| Some(of.decoded(name)?.json));
            for (name, member) in members {
                if let Some(field) = of.decoded(name) {
                    spell(field.kind, member);
                }
            }
        }
        _ => {}
    }
}

/// Renames members like [`spell`], for an object with few fields, given by name.
pub fn spell_members(names: &[&'static str], members: &mut Map<String, Value>) {
    rename(members, |given| {
        let named = |same: fn(&str, &str) -> bool| names.iter().find(|name| same(given, name));
        named(|a, b| a == b).or_else(|| named(folds_to)).copied()
    });
}

fn rename(members: &mut Map<String, Value>, field: impl Fn(&str) -> Option<&'static str>) {
    if members.keys().all(|name| field(name).is_none_or(|spelled| spelled == name)) {
        return;
    }
    for (name, member) in std::mem::take(members) {
        let name = field(&name).map_or(name, str::to_owned);
        members.insert(name, member);
    }
}

/// True if a name equals a field's name in any letter case. Unicode folds two letters beyond ASCII
/// to ASCII ones: the long s and the Kelvin sign.
fn folds_to(given: &str, field: &str) -> bool {
    let folded = |letter| match letter {
        'ſ' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    given.chars().map(folded).eq(field.chars().map(|letter| letter.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::POD_SPEC;

    fn spelled(mut spec: Value) -> Value {
        spell(FieldKind::Struct(POD_SPEC), &mut spec);
        spec
    }

    #[test]
    fn field_names_match_in_any_letter_case() {
        let given = json!({
            "HOSTNETWORK": true,
            "Containers": [{
                "Name": "a", "volumemounts": [{"mountpath": "/a", "readonly": true}],
                "livenessprobe": {"HttpGet": {"PORT": 80}, "Exec": null},
                "resources": {"Limits": {"CPU": 1}},
                "future": {"Readonly": 1},
            }],
            "volumes": [{"ſecret": {"items": [{"\u{212a}ey": "a"}]}, "HostPath": {"type": ""}}],
            "nodeſelector": {"Name": "kept"},
        });
        let expected = json!({
            "hostNetwork": true,
            "containers": [{
                "name": "a", "volumeMounts": [{"mountPath": "/a", "readOnly": true}],
                "livenessProbe": {"httpGet": {"port": 80}, "exec": null},
                "resources": {"limits": {"CPU": 1}},
                "future": {"Readonly": 1},
            }],
            "volumes": [{"secret": {"items": [{"key": "a"}]}, "hostPath": {"type": ""}}],
            "nodeSelector": {"Name": "kept"},
        });
        assert_eq!(spelled(given), expected);
        assert_eq!(spelled(expected.clone()), expected);
    }

    #[test]
    fn later_of_two_spellings_is_used() {
        for (given, expected) in [
            (json!({"hostIPC": false, "hostipc": true}), true),
            (json!({"hostIPC": true, "HOSTIPC": false}), true),
        ] {
            assert_eq!(spelled(given), json!({"hostIPC": expected}));
        }
    }

    #[test]
    fn field_names_of_a_type_are_unique() {
        for of in &crate::ALL[..crate::MESSAGES.start] {
            let mut names: Vec<_> = of.fields().map(|f| f.json.to_ascii_lowercase()).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", of.name);
        }
    }
}
