//! Command operators of Envoy's access logs.

use super::format::Problem;

/// Validates an operator. Empty arguments count as none, as for Envoy.
pub(super) fn check(name: &str, arguments: &str, has_length: bool) -> Result<(), Problem> {
    let parts: Vec<&str> = arguments.split(':').collect();
    let part = |index: usize| parts.get(index).copied().unwrap_or_default();
    let one_of = |index: usize, words: &'static [&'static str]| {
        let found = part(index);
        let is_known = words.contains(&found);
        if is_known { Ok(()) } else { Err(Problem::Argument(found.to_owned(), words)) }
    };
    let takes_length = match name {
        _ if PLAIN.contains(&name) => {
            if !arguments.is_empty() {
                return Err(Problem::NoArguments);
            }
            false
        }
        _ if TIMES.contains(&name) => false,
        _ if HEADERS.contains(&name) => {
            required(arguments)?;
            headers(arguments)?;
            true
        }
        "DYNAMIC_METADATA" | "ENVIRONMENT" | "QUERY_PARAM" => {
            required(arguments)?;
            true
        }
        "CLUSTER_METADATA" | "UPSTREAM_METADATA" => {
            required(arguments)?;
            false
        }
        "METADATA" => {
            one_of(0, METADATA)?;
            true
        }
        "FILTER_STATE" | "UPSTREAM_FILTER_STATE" => {
            required(part(0))?;
            one_of(1, &["", "PLAIN", "TYPED", "FIELD"])?;
            if (part(1) == "FIELD") == part(2).is_empty() {
                return Err(Problem::Field);
            }
            true
        }
        "COMMON_DURATION" => {
            if parts.len() != 2 {
                one_of(2, &["ms", "us", "ns"])?;
            }
            if parts.len() > 3 {
                return Err(Problem::Argument(part(3).to_owned(), &[]));
            }
            false
        }
        "PATH" => {
            one_of(0, &["", "WQ", "NQ"])?;
            one_of(1, &["", "ORIG", "PATH", "ORIG_OR_PATH"])?;
            true
        }
        "QUERY_PARAMS" => {
            one_of(0, &["", "ORIG", "DECODED"])?;
            true
        }
        "GRPC_STATUS" => {
            one_of(0, &["", "CAMEL_STRING", "SNAKE_STRING", "NUMBER"])?;
            false
        }
        _ => return Err(Problem::Unknown),
    };
    if has_length && !takes_length { Err(Problem::NoLength) } else { Ok(()) }
}

fn required(argument: &str) -> Result<(), Problem> {
    if argument.is_empty() { Err(Problem::NeedsArguments) } else { Ok(()) }
}

/// Validates the name of a header, and of the one that stands in for it.
fn headers(names: &str) -> Result<(), Problem> {
    let is_valid = |name: &str| {
        let word = name.strip_prefix(':').unwrap_or(name);
        name != ":"
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    if names.split('?').count() > 2 || !names.split('?').all(is_valid) {
        return Err(Problem::Header(names.to_owned()));
    }
    Ok(())
}

const METADATA: &[&str] = &[
    "DYNAMIC",
    "CLUSTER",
    "ROUTE",
    "UPSTREAM_HOST",
    "LISTENER",
    "VIRTUAL_HOST",
    "LISTENER_FILTER_CHAIN",
];

/// Operators with the name of a header.
const HEADERS: &[&str] = &[
    "REQ",
    "REQUEST_HEADER",
    "RESP",
    "RESPONSE_HEADER",
    "RESPONSE_TRAILER",
    "STREAM_INFO_REQ",
    "TRAILER",
];

/// Operators with an optional format.
const TIMES: &[&str] = &[
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_PEER_CERT_V_END",
    "DOWNSTREAM_PEER_CERT_V_START",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "EMIT_TIME",
    "EMIT_TIME_LOCAL",
    "RESPONSE_CODE_DETAILS",
    "START_TIME",
    "START_TIME_LOCAL",
    "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "UPSTREAM_PEER_CERT_V_END",
    "UPSTREAM_PEER_CERT_V_START",
    "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
];

/// Operators without arguments. Those whose arguments are a language of their own (`CEL`,
/// `TYPED_CEL`, `COALESCE`, `XFCC_VALUE`) are in no list: their arguments could not be validated.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "ACCESS_LOG_TYPE", "BYTES_RECEIVED", "BYTES_RETRANSMITTED", "BYTES_SENT", "CONNECTION_ID",
    "CONNECTION_TERMINATION_DETAILS", "CUSTOM_FLAGS", "DOWNSTREAM_CX_RTT",
    "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
    "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT", "DOWNSTREAM_DETECTED_CLOSE_TYPE",
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS", "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_ENDPOINT_ID",
    "DOWNSTREAM_DIRECT_LOCAL_PORT", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
    "DOWNSTREAM_DIRECT_REMOTE_PORT", "DOWNSTREAM_HANDSHAKE_DURATION",
    "DOWNSTREAM_HEADER_BYTES_RECEIVED", "DOWNSTREAM_HEADER_BYTES_SENT",
    "DOWNSTREAM_LOCAL_ADDRESS", "DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID",
    "DOWNSTREAM_LOCAL_CLOSE_REASON", "DOWNSTREAM_LOCAL_DNS_SAN", "DOWNSTREAM_LOCAL_EMAIL_SAN",
    "DOWNSTREAM_LOCAL_IP_SAN", "DOWNSTREAM_LOCAL_OTHERNAME_SAN", "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_LOCAL_SUBJECT", "DOWNSTREAM_LOCAL_URI_SAN", "DOWNSTREAM_PEER_CERT",
    "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_1", "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256",
    "DOWNSTREAM_PEER_CHAIN_SERIALS", "DOWNSTREAM_PEER_DNS_SAN", "DOWNSTREAM_PEER_EMAIL_SAN",
    "DOWNSTREAM_PEER_FINGERPRINT_1", "DOWNSTREAM_PEER_FINGERPRINT_256",
    "DOWNSTREAM_PEER_IP_SAN", "DOWNSTREAM_PEER_ISSUER",
    "DOWNSTREAM_PEER_ISSUER_FINGERPRINT_256", "DOWNSTREAM_PEER_ISSUER_SERIAL",
    "DOWNSTREAM_PEER_OTHERNAME_SAN", "DOWNSTREAM_PEER_SERIAL", "DOWNSTREAM_PEER_SUBJECT",
    "DOWNSTREAM_PEER_URI_SAN", "DOWNSTREAM_REMOTE_ADDRESS", "DOWNSTREAM_REMOTE_PORT",
    "DOWNSTREAM_TLS_CIPHER", "DOWNSTREAM_TLS_GROUP", "DOWNSTREAM_TLS_SESSION_ID",
    "DOWNSTREAM_TLS_VERSION", "DOWNSTREAM_TRANSPORT_FAILURE_REASON",
    "DOWNSTREAM_WIRE_BYTES_RECEIVED", "DOWNSTREAM_WIRE_BYTES_SENT", "DURATION",
    "FILTER_CHAIN_NAME", "GRPC_STATUS_NUMBER", "HOSTNAME", "LISTENER_NAME", "LOCAL_REPLY_BODY",
    "PACKETS_RETRANSMITTED", "PROTOCOL", "REQUESTED_SERVER_NAME", "REQUEST_DURATION",
    "REQUEST_HEADERS_BYTES", "REQUEST_TX_DURATION", "RESPONSE_CODE", "RESPONSE_DURATION",
    "RESPONSE_FLAGS", "RESPONSE_FLAGS_LONG", "RESPONSE_HEADERS_BYTES",
    "RESPONSE_TRAILERS_BYTES", "RESPONSE_TX_DURATION", "ROUNDTRIP_DURATION", "ROUTE_NAME",
    "ROUTE_RESOLUTION_COUNT", "ROUTE_RESOLUTION_TIME_US", "SPAN_ID", "STREAM_ID",
    "TLS_JA3_FINGERPRINT", "TLS_JA4_FINGERPRINT", "TRACE_ID", "UNIQUE_ID", "UPSTREAM_CLUSTER",
    "UPSTREAM_CLUSTER_RAW", "UPSTREAM_CONNECTION_ID", "UPSTREAM_CONNECTION_IDS_ATTEMPTED",
    "UPSTREAM_CONNECTION_POOL_READY_DURATION", "UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
    "UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT", "UPSTREAM_DETECTED_CLOSE_TYPE",
    "UPSTREAM_HEADER_BYTES_RECEIVED", "UPSTREAM_HEADER_BYTES_SENT", "UPSTREAM_HOST",
    "UPSTREAM_HOSTS_ATTEMPTED", "UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT", "UPSTREAM_HOST_NAME",
    "UPSTREAM_HOST_NAMES_ATTEMPTED", "UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT",
    "UPSTREAM_HOST_NAME_WITHOUT_PORT", "UPSTREAM_LOCAL_ADDRESS", "UPSTREAM_LOCAL_CLOSE_REASON",
    "UPSTREAM_LOCAL_DNS_SAN", "UPSTREAM_LOCAL_IP_SAN", "UPSTREAM_LOCAL_PORT",
    "UPSTREAM_LOCAL_URI_SAN", "UPSTREAM_PEER_CERT", "UPSTREAM_PEER_DNS_SAN",
    "UPSTREAM_PEER_IP_SAN", "UPSTREAM_PEER_ISSUER", "UPSTREAM_PEER_SUBJECT",
    "UPSTREAM_PEER_URI_SAN", "UPSTREAM_PROTOCOL", "UPSTREAM_REMOTE_ADDRESS",
    "UPSTREAM_REMOTE_ADDRESS_ENDPOINT_ID", "UPSTREAM_REMOTE_PORT",
    "UPSTREAM_REQUEST_ATTEMPT_COUNT", "UPSTREAM_SERVER_NAME", "UPSTREAM_TLS_CIPHER",
    "UPSTREAM_TLS_GROUP", "UPSTREAM_TLS_SESSION_ID", "UPSTREAM_TLS_VERSION",
    "UPSTREAM_TRANSPORT_FAILURE_REASON", "UPSTREAM_WIRE_BYTES_RECEIVED",
    "UPSTREAM_WIRE_BYTES_SENT", "VIRTUAL_CLUSTER_NAME",
];
