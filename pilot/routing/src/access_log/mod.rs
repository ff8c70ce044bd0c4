//! Access logs of proxies: `accessLogFile`, `accessLogEncoding` and `accessLogFormat`.

mod format;
mod operators;

use std::sync::Arc;

use mesh::mesh_config::MeshConfig;
use serde_json::{Map, Value};

pub use self::format::{InvalidFormat, check_text, check_value};

/// Access log of all proxies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessLog {
    /// File of the log, such as `/dev/stdout`.
    pub path: Arc<str>,
    /// Content of a line.
    pub format: LogFormat,
}

/// Content of a line, with Envoy's command operators.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// Text with its newline.
    Text(String),
    /// Fields of a JSON object.
    Json(Map<String, Value>),
}

impl AccessLog {
    /// Validates the format. Envoy rejects an invalid one, and every listener with it.
    pub fn validate(&self) -> Result<(), InvalidFormat> {
        match &self.format {
            LogFormat::Text(text) => check_text(text),
            LogFormat::Json(fields) => fields.values().try_for_each(check_value),
        }
    }

    /// Reads the settings; `None` if no file is set. A format that is no JSON object, though the
    /// encoding is JSON, leaves Istio's default fields.
    pub fn new(mesh: &MeshConfig) -> Option<Self> {
        let text = |key: &str| {
            mesh.document.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
        };
        let is_json = match mesh.document.get("accessLogEncoding") {
            Some(Value::String(encoding)) => encoding == "JSON",
            Some(Value::Number(encoding)) => encoding.as_u64() == Some(1),
            _ => false,
        };
        let format = text("accessLogFormat");
        let format = if is_json {
            let own = format.and_then(|format| serde_json::from_str(format).ok());
            LogFormat::Json(own.unwrap_or_else(default_fields))
        } else {
            let line = format.map_or_else(default_text, str::to_owned);
            LogFormat::Text(if line.ends_with('\n') { line } else { line + "\n" })
        };
        Some(Self { path: text("accessLogFile")?.into(), format })
    }
}

fn default_text() -> String {
    let quoted = |operator: &str| format!("\"{operator}\"");
    [
        "[%START_TIME%]",
        &quoted("%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%"),
        "%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%",
        "%CONNECTION_TERMINATION_DETAILS%",
        &quoted("%UPSTREAM_TRANSPORT_FAILURE_REASON%"),
        "%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
        &quoted("%REQ(X-FORWARDED-FOR)%"),
        &quoted("%REQ(USER-AGENT)%"),
        &quoted("%REQ(X-REQUEST-ID)%"),
        &quoted("%REQ(:AUTHORITY)%"),
        &quoted("%UPSTREAM_HOST%"),
        "%UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS%",
        "%DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%",
    ]
    .join(" ")
}

fn default_fields() -> Map<String, Value> {
    FIELDS.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// Istio's fields of JSON logs, on which queries of logs depend.
const FIELDS: [(&str, &str); 23] = [
    ("authority", "%REQ(:AUTHORITY)%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("duration", "%DURATION%"),
    ("method", "%REQ(:METHOD)%"),
    ("path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
    ("protocol", "%PROTOCOL%"),
    ("request_id", "%REQ(X-REQUEST-ID)%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("route_name", "%ROUTE_NAME%"),
    ("start_time", "%START_TIME%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER_RAW%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
    ("upstream_service_time", "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"),
    ("user_agent", "%REQ(USER-AGENT)%"),
    ("x_forwarded_for", "%REQ(X-FORWARDED-FOR)%"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Option<AccessLog> {
        AccessLog::new(&MeshConfig::parse(text).unwrap())
    }

    #[test]
    fn log_needs_a_file() {
        assert_eq!(log("accessLogEncoding: JSON"), None);
        assert_eq!(log("accessLogFile: ''"), None);
    }

    #[test]
    fn text_ends_with_a_newline() {
        let format = |text: &str| match log(text).unwrap().format {
            LogFormat::Text(text) => text,
            LogFormat::Json(fields) => panic!("{fields:?}"),
        };
        assert_eq!(
            format("{accessLogFile: /dev/stdout, accessLogFormat: '%DURATION%'}"),
            "%DURATION%\n"
        );
        let default = format("accessLogFile: /dev/stdout");
        assert!(default.starts_with("[%START_TIME%] \"%REQ(:METHOD)% "), "{default}");
        assert!(default.ends_with(" %ROUTE_NAME%\n"), "{default}");
    }

    #[test]
    fn json_has_own_fields_or_istios() {
        let fields = |format: &str| {
            let text = format!(
                "{{accessLogFile: /dev/stdout, accessLogEncoding: JSON, accessLogFormat: '{format}'}}"
            );
            match log(&text).unwrap().format {
                LogFormat::Json(fields) => fields.len(),
                LogFormat::Text(text) => panic!("{text}"),
            }
        };
        assert_eq!(fields(r#"{"code": "%RESPONSE_CODE%"}"#), 1);
        assert_eq!([fields(""), fields("%DURATION%")], [FIELDS.len(); 2]);
    }
}
