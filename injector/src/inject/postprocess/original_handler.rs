//! Handlers of the application as they were before injection.

use serde_json::{Map, Value};

/// Puts the action of one of the agent's probers back into a handler that calls the agent. Returns
/// the action's name; `None` if the prober has no action.
pub(crate) fn put_back(handler: &mut Map<String, Value>, prober: &Value) -> Option<&'static str> {
    let original = prober["httpGet"].as_object();
    if let Some(original) = original.filter(|original| original.contains_key("port")) {
        let current = handler.get_mut("httpGet")?.as_object_mut()?;
        // The other fields stay as they are in an injected pod.
        current.remove("path");
        let replaced =
            |(field, _): &(&String, &Value)| ["path", "port", "scheme"].contains(&field.as_str());
        let original = original.iter().filter(replaced);
        current.extend(original.map(|(field, value)| (field.clone(), value.clone())));
        return Some("httpGet");
    }
    let action = ["tcpSocket", "grpc"].into_iter().find(|action| prober[action].is_object())?;
    let fields = prober[action].as_object().into_iter().flatten();
    let fields = fields.filter(|(_, value)| !value.is_null());
    let fields = fields.map(|(field, value)| (field.clone(), value.clone())).collect();
    handler.remove("httpGet");
    handler.insert(action.to_owned(), Value::Object(fields));
    Some(action)
}
