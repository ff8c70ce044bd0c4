//! Validation of outputs by the published JSON schemas.

use serde_json::Value;

/// Checks a value against a schema of `docs/`. Only the keywords that these use are known.
///
/// # Errors
///
/// Returns the path of the first part that does not match, or a keyword that is unknown.
pub fn validate(value: &Value, schema: &Value) -> Result<(), String> {
    matches_form(value, schema, schema, "$")
}

fn matches_form(value: &Value, form: &Value, schema: &Value, place: &str) -> Result<(), String> {
    for (keyword, wanted) in form.as_object().into_iter().flatten() {
        let holds = match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let pointer = wanted.as_str().and_then(|text| text.strip_prefix('#'));
                let definition = pointer.and_then(|pointer| schema.pointer(pointer));
                let definition = definition.ok_or_else(|| format!("{wanted} is not defined"))?;
                matches_form(value, definition, schema, place)?;
                true
            }
            "oneOf" => {
                let is_of = |form: &&Value| matches_form(value, form, schema, place).is_ok();
                wanted.as_array().into_iter().flatten().filter(is_of).count() == 1
            }
            "const" => value == wanted,
            "enum" => wanted.as_array().is_some_and(|values| values.contains(value)),
            "type" => is_of_type(value, wanted.as_str().unwrap_or_default())?,
            "minimum" => value.as_u64() >= wanted.as_u64(),
            "maximum" => value.as_u64() <= wanted.as_u64(),
            "minItems" => value.as_array().map(|items| items.len() as u64) >= wanted.as_u64(),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    matches_form(item, wanted, schema, &format!("{place}[{index}]"))?;
                }
                true
            }
            "required" => {
                let mut names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
                names.all(|name| value.get(name).is_some())
            }
            "properties" => {
                for (name, form) in wanted.as_object().into_iter().flatten() {
                    if let Some(member) = value.get(name) {
                        matches_form(member, form, schema, &format!("{place}.{name}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let named = |name: &String| form["properties"].get(name).is_some();
                let others = value.as_object().into_iter().flatten();
                for (name, member) in others.filter(|(name, _)| !named(name)) {
                    match wanted {
                        Value::Bool(true) => {}
                        Value::Bool(false) => return Err(format!("{place}.{name} is unknown")),
                        form => {
                            matches_form(member, form, schema, &format!("{place}.{name}"))?;
                        }
                    }
                }
                true
            }
            other => return Err(format!("{other} is an unknown keyword")),
        };
        if !holds {
            return Err(format!("{place}: {keyword}: {wanted}: {value}"));
        }
    }
    Ok(())
}

fn is_of_type(value: &Value, name: &str) -> Result<bool, String> {
    Ok(match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "null" => value.is_null(),
        other => return Err(format!("{other} is an unknown type")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_must_match_every_keyword() {
        let schema = json!({
            "type": "object",
            "required": ["name"],
            "additionalProperties": false,
            "properties": {
                "name": {"enum": ["a", "b"]},
                "ports": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/port"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "$defs": {"port": {"oneOf": [{"const": "*"}, {"type": "integer", "maximum": 9}]}},
        });
        let check = |value: Value| validate(&value, &schema);
        assert_eq!(check(json!({"name": "a", "ports": ["*", 9], "labels": {"x": "y"}})), Ok(()));
        for (value, place) in [
            (json!([]), "$: "),
            (json!({}), "$: required"),
            (json!({"name": "c"}), "$.name: enum"),
            (json!({"name": "a", "x": 1}), "$.x is unknown"),
            (json!({"name": "a", "ports": []}), "$.ports: minItems"),
            (json!({"name": "a", "ports": ["*", 10]}), "$.ports[1]: oneOf"),
            (json!({"name": "a", "labels": {"x": 1}}), "$.labels.x: type"),
        ] {
            let error = check(value).unwrap_err();
            assert!(error.starts_with(place), "{error}");
        }
        assert!(validate(&json!(1), &json!({"not": {}})).is_err());
    }
}
