//! Access logs of listeners, connections and requests.

use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::{
    AccessLog as EnvoyLog, AccessLogFilter, ResponseFlagFilter, access_log,
};
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::substitution_format_string::Format;
use envoy_types::pb::envoy::config::core::v3::{DataSource, SubstitutionFormatString};
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::FileAccessLog;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3::file_access_log::AccessLogFormat;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value as EnvoyValue};
use serde_json::{Map, Value};

use super::message::any;
use crate::access_log::{AccessLog, LogFormat};

/// Returns the log of connections or requests.
pub(super) fn logs(log: Option<&AccessLog>) -> Vec<EnvoyLog> {
    log.map(build).into_iter().collect()
}

/// Returns the log of connections that no filter chain takes, such as plaintext in strict mode.
pub(super) fn logs_of_rejections(log: Option<&AccessLog>) -> Vec<EnvoyLog> {
    let flags = ResponseFlagFilter { flags: vec!["NR".to_owned()] };
    let filter =
        AccessLogFilter { filter_specifier: Some(FilterSpecifier::ResponseFlagFilter(flags)) };
    log.map(|log| EnvoyLog { filter: Some(filter), ..build(log) }).into_iter().collect()
}

fn build(log: &AccessLog) -> EnvoyLog {
    let format = match &log.format {
        LogFormat::Text(text) => Format::TextFormatSource(DataSource {
            specifier: Some(Specifier::InlineString(text.clone())),
            ..DataSource::default()
        }),
        LogFormat::Json(fields) => Format::JsonFormat(structure(fields)),
    };
    let format =
        SubstitutionFormatString { format: Some(format), ..SubstitutionFormatString::default() };
    let file = FileAccessLog {
        path: log.path.to_string(),
        access_log_format: Some(AccessLogFormat::LogFormat(format)),
    };
    EnvoyLog {
        name: "envoy.access_loggers.file".to_owned(),
        config_type: Some(access_log::ConfigType::TypedConfig(any(&file))),
        ..EnvoyLog::default()
    }
}

fn structure(fields: &Map<String, Value>) -> Struct {
    Struct { fields: fields.iter().map(|(key, field)| (key.clone(), value(field))).collect() }
}

fn value(field: &Value) -> EnvoyValue {
    let kind = match field {
        Value::Null => Kind::NullValue(0),
        Value::Bool(on) => Kind::BoolValue(*on),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => {
            Kind::ListValue(ListValue { values: items.iter().map(value).collect() })
        }
        Value::Object(fields) => Kind::StructValue(structure(fields)),
    };
    EnvoyValue { kind: Some(kind) }
}
