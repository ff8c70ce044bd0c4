//! TLS of static clusters.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::SDS_CLUSTER;
use crate::config::{Address, ClientTls, TlsIdentity};

/// Returns the transport socket of a client with these settings.
pub(super) fn transport_socket(tls: &ClientTls, address: &Address, http2: bool) -> Value {
    let mut common = Map::new();
    match &tls.identity {
        TlsIdentity::None => {}
        TlsIdentity::Files { certificate, key } => {
            let pair = json!({ "certificate_chain": file(certificate), "private_key": file(key) });
            common.insert("tls_certificates".to_owned(), json!([pair]));
        }
        TlsIdentity::Workload => {
            common.insert(
                "tls_certificate_sds_secret_configs".to_owned(),
                json!([secret("default")]),
            );
        }
    }
    let (key, validation) = validation(tls);
    if let Some(validation) = validation {
        common.insert(key.to_owned(), validation);
    }
    if http2 {
        common.insert("alpn_protocols".to_owned(), json!(["h2"]));
    }
    let mut context = json!({
        "@type": super::type_url("transport_sockets.tls.v3.UpstreamTlsContext"),
        "common_tls_context": common,
    });
    let server_name = match tls.sni.as_str() {
        "" if address.host.parse::<IpAddr>().is_err() => address.host.as_str(),
        given => given,
    };
    if !server_name.is_empty() {
        context["sni"] = server_name.into();
    }
    json!({ "name": "envoy.transport_sockets.tls", "typed_config": context })
}

/// Returns the verification of the server's certificate; `None` if it is not verified.
fn validation(tls: &ClientTls) -> (&'static str, Option<Value>) {
    if tls.insecure {
        return ("validation_context", None);
    }
    let mut context = Map::new();
    if let Some(crl) = &tls.ca_crl {
        context.insert("crl".to_owned(), file(crl));
    }
    if !tls.subject_alt_names.is_empty() {
        let names: Vec<_> =
            tls.subject_alt_names.iter().map(|name| subject_alt_name(name)).collect();
        context.insert("match_typed_subject_alt_names".to_owned(), names.into());
    }
    if let Some(file_name) = &tls.ca_certificates {
        context.insert("trusted_ca".to_owned(), file(file_name));
    } else if tls.identity == TlsIdentity::Workload {
        let combined = json!({
            "default_validation_context": context,
            "validation_context_sds_secret_config": secret("ROOTCA"),
        });
        return ("combined_validation_context", Some(combined));
    } else {
        // Envoy rejects its own `system_root_certs` beside names.
        context.insert("trusted_ca".to_owned(), file(SYSTEM_ROOTS));
    }
    ("validation_context", Some(Value::Object(context)))
}

fn subject_alt_name(name: &str) -> Value {
    let kind = match () {
        () if name.contains("://") => "URI",
        () if name.parse::<IpAddr>().is_ok() => "IP_ADDRESS",
        () => "DNS",
    };
    json!({ "san_type": kind, "matcher": { "exact": name } })
}

fn file(name: &str) -> Value {
    json!({ "filename": name })
}

fn secret(name: &str) -> Value {
    json!({
        "name": name,
        "sds_config": {
            "resource_api_version": "V3",
            "api_config_source": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{ "envoy_grpc": { "cluster_name": SDS_CLUSTER } }],
            },
        },
    })
}

/// The system's root certificates in the proxy's image.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
