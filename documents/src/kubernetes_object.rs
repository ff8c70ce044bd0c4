//! Detection of a whole Kubernetes object in place of a configuration document.

use serde_json::Value;

/// Rejects a document that is a Kubernetes object. `key` is the document's key in its `ConfigMap`.
pub fn refuse(document: &Value, key: &str) -> Result<(), String> {
    let (Some(kind), Some(_)) = (document["kind"].as_str(), document["apiVersion"].as_str()) else {
        return Ok(());
    };
    Err(if kind == "ConfigMap" {
        format!("this is a ConfigMap: give its `.data.{key}`")
    } else {
        format!(
            "this is a {kind}, not the document `{key}`: give the `.data.{key}` of the \
             injector's ConfigMap"
        )
    })
}
