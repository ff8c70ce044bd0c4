//! JSON of a container port.

use serde_json::Value;

/// Returns the JSON that Go writes for a `ContainerPort`: its fields in the type's order, without
/// empty ones.
pub(crate) fn json(port: &Value) -> String {
    let fields = ["name", "hostPort", "containerPort", "protocol", "hostIP"];
    let mut json = String::from("{");
    for field in fields {
        let Some(value) = port.get(field) else { continue };
        if value.is_null() || value == "" || (value == 0 && field != "containerPort") {
            continue;
        }
        let comma = if json.len() > 1 { "," } else { "" };
        let value = serde_json::to_string(value).unwrap_or_default();
        json.extend([comma, "\"", field, "\":", &value]);
    }
    json + "}"
}
