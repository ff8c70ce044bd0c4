//! The fields of `ProxyConfig`, and their values in protobuf's JSON.

use serde_json::{Map, Value, json};

use crate::absent::without_nulls;
use crate::go_duration;

/// The field that a name of the user means: protobuf's own names (`status_port`) mean it too.
pub(super) fn field(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| {
        field.name == name || name.contains('_') && field.name == lower_camel_case(name)
    })
}

/// The name of a field in protobuf's JSON, from its own name in protobuf.
pub(crate) fn lower_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

/// What a field holds, as far as a wrong value can be told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Any,
    AuthenticationPolicy,
    Duration,
    Headers,
    Image,
    InterceptionMode,
    List,
    Message,
    Metadata,
    Number,
    Switch,
    Text,
    WrappedNumber,
}

impl Kind {
    /// Whether protobuf's JSON leaves the value out. A wrapped scalar and a message are there or
    /// not, whatever is in them.
    pub(super) fn is_zero(self, value: &Value) -> bool {
        match (self, value) {
            (Self::AuthenticationPolicy | Self::InterceptionMode, Value::String(word)) => {
                self.words().first() == Some(&word.as_str())
            }
            (Self::Number, Value::Number(number)) => number.as_i64() == Some(0),
            (Self::Text, Value::String(text)) => text.is_empty(),
            _ => false,
        }
    }

    /// The words of an enumeration in the order of their numbers.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::AuthenticationPolicy => &["NONE", "MUTUAL_TLS"],
            Self::InterceptionMode => &["REDIRECT", "TPROXY", "NONE"],
            _ => &[],
        }
    }

    /// The value in protobuf's own form; the error calls the field `name`.
    pub(super) fn canonical(self, name: &str, value: &Value) -> Result<Value, String> {
        let wrong = |allowed: &str| Err(format!("{name}: {value} is not {allowed}"));
        match (self, value) {
            (Self::Message, Value::Object(_)) => Ok(with_durations(without_nulls(value.clone()))),
            (Self::Any, _) | (Self::Headers, Value::Object(_)) | (Self::List, Value::Array(_)) => {
                Ok(without_nulls(value.clone()))
            }
            (Self::Switch, Value::Bool(_)) | (Self::Text, Value::String(_)) => Ok(value.clone()),
            (Self::Image, Value::Object(members)) => Ok(members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (lower_camel_case(key), value.clone()))
                .collect::<Map<_, _>>()
                .into()),
            (Self::Metadata, Value::Object(entries)) => entries
                .iter()
                .map(|(key, entry)| match entry {
                    Value::String(_) => Ok((key.clone(), entry.clone())),
                    Value::Bool(_) | Value::Number(_) => {
                        Ok((key.clone(), Value::String(entry.to_string())))
                    }
                    _ => Err(format!("{name}.{key}: {entry} is not a string")),
                })
                .collect::<Result<Map<_, _>, _>>()
                .map(Value::Object),
            (Self::Number | Self::WrappedNumber, _) => match whole(value) {
                Some(number) => Ok(json!(number)),
                None => wrong("a whole number"),
            },
            (Self::Duration, _) => match value.as_str().and_then(duration) {
                Some(duration) => Ok(Value::String(duration)),
                None => wrong("a duration such as 45s or 1m30s"),
            },
            (Self::AuthenticationPolicy | Self::InterceptionMode, _) => {
                let words = self.words();
                let by_number = || words.get(usize::try_from(value.as_u64()?).ok()?).copied();
                let by_name = || words.iter().copied().find(|word| value.as_str() == Some(word));
                if let Some(word) = by_name().or_else(by_number) {
                    return Ok(json!(word));
                }
                let (last, others) = words.split_last().unwrap_or((&"", &[]));
                wrong(&format!("{} or {last}", others.join(", ")))
            }
            (Self::Switch, _) => wrong("true or false"),
            (Self::Text, _) => wrong("a string"),
            (Self::List, _) => wrong("a list"),
            (Self::Message | Self::Headers | Self::Image | Self::Metadata, _) => wrong("a mapping"),
        }
    }
}

/// A number as protobuf's JSON takes it: `2`, `"2"` and `2.0`.
pub(super) fn whole(value: &Value) -> Option<i32> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => i32::try_from(number).ok(),
            None => {
                number.as_f64().filter(|number| number.fract() == 0.0)?.to_string().parse().ok()
            }
        },
        _ => None,
    }
}

/// The canonical JSON form of a `google.protobuf.Duration` that is written as Go does, which is how
/// Istio reads one (`1m30s`, `10ms`): seconds, with none, three, six or nine decimals.
fn duration(text: &str) -> Option<String> {
    let nanoseconds = u64::try_from(go_duration::nanoseconds(text)?).ok()?;
    let (whole, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let fraction = format!("{fraction:09}");
    let fraction = fraction.trim_end_matches('0');
    Some(match fraction.len().div_ceil(3) * 3 {
        0 => format!("{whole}s"),
        width => format!("{whole}.{fraction:0<width$}s"),
    })
}

/// A message with its durations in canonical form. What is none stays, for the proxy to refuse.
fn with_durations(mut message: Value) -> Value {
    for path in DURATIONS {
        let place = message.pointer_mut(path);
        let place = place.and_then(|place| Some((duration(place.as_str()?)?, place)));
        if let Some((canonical, place)) = place {
            *place = Value::String(canonical);
        }
    }
    message
}

/// The durations inside `privateKeyProvider`, `envoyAccessLogService` and `envoyMetricsService`.
const DURATIONS: [&str; 4] =
    ["/cryptomb/pollDelay", "/qat/pollDelay", "/tcpKeepalive/interval", "/tcpKeepalive/time"];

/// One field.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) initial: Initial,
}

/// What a field is where nobody says anything.
pub(super) enum Initial {
    Unset,
    Text(&'static str),
    Number(i32),
}

impl Initial {
    /// Whether a value is this one.
    pub(super) fn is(&self, value: &Value) -> bool {
        match self {
            Self::Unset => false,
            Self::Text(text) => value == text,
            Self::Number(number) => value == number,
        }
    }
}

const fn of(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, initial: Initial::Unset }
}

const fn text(name: &'static str, kind: Kind, initial: &'static str) -> Field {
    Field { name, kind, initial: Initial::Text(initial) }
}

const fn number(name: &'static str, initial: i32) -> Field {
    Field { name, kind: Kind::Number, initial: Initial::Number(initial) }
}

/// The fields of `mesh.v1alpha1.ProxyConfig` in the order of their numbers.
pub(super) const FIELDS: &[Field] = &[
    text("configPath", Kind::Text, "./etc/istio/proxy"),
    text("binaryPath", Kind::Text, "/usr/local/bin/envoy"),
    text("serviceCluster", Kind::Text, "istio-proxy"),
    text("drainDuration", Kind::Duration, "45s"),
    text("discoveryAddress", Kind::Text, "istiod.istio-system.svc:15012"),
    of("discoveryRefreshDelay", Kind::Duration),
    of("zipkinAddress", Kind::Text),
    of("statsdUdpAddress", Kind::Text),
    number("proxyAdminPort", 15000),
    text("controlPlaneAuthPolicy", Kind::AuthenticationPolicy, "MUTUAL_TLS"),
    of("customConfigFile", Kind::Text),
    number("statNameLength", 189),
    of("concurrency", Kind::WrappedNumber),
    of("proxyBootstrapTemplatePath", Kind::Text),
    of("interceptionMode", Kind::InterceptionMode),
    of("tracing", Kind::Message),
    of("sds", Kind::Message),
    of("envoyAccessLogService", Kind::Message),
    of("envoyMetricsService", Kind::Message),
    of("proxyMetadata", Kind::Metadata),
    number("statusPort", 15020),
    of("extraStatTags", Kind::List),
    of("gatewayTopology", Kind::Message),
    text("terminationDrainDuration", Kind::Duration, "5s"),
    of("meshId", Kind::Text),
    of("readinessProbe", Kind::Message),
    of("proxyStatsMatcher", Kind::Message),
    of("holdApplicationUntilProxyStarts", Kind::Switch),
    of("caCertificatesPem", Kind::List),
    of("tracingServiceName", Kind::Text),
    of("image", Kind::Image),
    of("privateKeyProvider", Kind::Message),
    of("runtimeValues", Kind::Message),
    of("proxyHeaders", Kind::Headers),
    of("fileFlushInterval", Kind::Duration),
    of("fileFlushMinSizeKb", Kind::WrappedNumber),
    of("statsCompression", Kind::Switch),
];
