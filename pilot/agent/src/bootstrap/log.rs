//! Format of Envoy's own log.

use serde_json::{Value, json};

/// Returns the format with the columns of the agent's log.
pub(super) fn format(as_json: bool) -> Value {
    let format = if as_json {
        json!({ "json_format": {
            "level": "%l", "time": "%Y-%m-%dT%T.%fZ", "scope": "envoy %n", "msg": "%j",
            "caller": "%g:%#", "thread": "%t",
        } })
    } else {
        json!({ "text_format": "%Y-%m-%dT%T.%fZ\t%l\tenvoy %n %g:%#\t%v\tthread=%t" })
    };
    json!({ "log_format": format })
}
