//! Capture request of a pod: what the container `istio-validation` checks, as an annotation that the container
//! runtime passes to the CNI plugin.

use serde_json::{Map, Value, json};

use crate::json::change::Draft;
use crate::kubernetes::pod::{INIT_CONTAINERS, VALIDATION, find};
use crate::settings::annotations::key;

/// Writes the request from the pod's final container. Without that container, the pod gets none.
pub fn apply(draft: &mut Draft) {
    let pod = draft.value();
    let index = find(pod, INIT_CONTAINERS, VALIDATION);
    match index.map(|index| request(&pod["spec"][INIT_CONTAINERS][index])) {
        Some(request) => {
            let path = ["metadata", "annotations", key::CAPTURE].map(Into::into);
            draft.set(&path, request.to_string().into());
        }
        None => draft.remove(&["metadata".into(), "annotations".into()], key::CAPTURE),
    }
}

/// Returns the arguments of a container and the variables that have a literal value.
fn request(container: &Value) -> Value {
    let words = |list: &str| container[list].as_array().into_iter().flatten();
    let args: Vec<_> = words("command").skip(1).chain(words("args")).collect();
    let env = words("env").filter(|variable| variable.get("valueFrom").is_none());
    let env: Map<_, _> = env
        .filter_map(|variable| {
            let value = variable.get("value").and_then(Value::as_str).unwrap_or_default();
            Some((variable["name"].as_str()?.to_owned(), value.into()))
        })
        .collect();
    json!({ "args": args, "env": env })
}
