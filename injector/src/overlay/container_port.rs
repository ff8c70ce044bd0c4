//! A container's port as JSON.

use serde_json::Value;

/// Writes a port as Go writes the type `ContainerPort`: its fields in the type's order, none empty.
pub(super) fn json(port: &Value) -> String {
    let fields = ["name", "hostPort", "containerPort", "protocol", "hostIP"];
    let present = fields.iter().filter_map(|field| {
        let value = port.get(*field)?;
        let empty = value.is_null() || value == "" || (value == 0 && *field != "containerPort");
        (!empty).then(|| format!("\"{field}\":{value}"))
    });
    format!("{{{}}}", present.collect::<Vec<_>>().join(","))
}
