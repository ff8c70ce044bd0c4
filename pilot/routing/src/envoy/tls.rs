//! TLS between proxies: contexts with the agent's certificates, ALPN, identities.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::cluster::TransportSocketMatch;
use envoy_types::pb::envoy::config::core::v3::{
    ApiConfigSource, ApiVersion, ConfigSource, GrpcService, TransportSocket, api_config_source,
    config_source, grpc_service, transport_socket,
};
use envoy_types::pb::envoy::extensions::matching::common_inputs::transport_socket::v3::{
    FilterStateInput, TransportSocketNameAction,
};
use envoy_types::pb::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig,
    SubjectAltNameMatcher, TlsParameters, UpstreamTlsContext, subject_alt_name_matcher,
    tls_parameters,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher};
use envoy_types::pb::google::protobuf::Struct;
use envoy_types::pb::xds::core::v3::TypedExtensionConfig;
use envoy_types::pb::xds::r#type::matcher::v3::Matcher;
use envoy_types::pb::xds::r#type::matcher::v3::matcher::{
    self, MatcherTree, OnMatch, matcher_tree, on_match,
};
use pilot_registry::protocol::{Protocol, ProtocolClass};
use prost::{Message, Name};

use super::message::{any, duration, object, switch, text};
use super::names::{OWN_CERTIFICATE, ROOTS, SDS_CLUSTER};
use crate::view::{MeshView, TlsVersion};

/// Mutual TLS of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientTls {
    /// Name of the service port.
    pub server_name: String,
    /// Identities of the servers; any of the mesh if empty.
    pub identities: Vec<String>,
    /// Protocol inside.
    pub protocol: Protocol,
    /// Lowest version of TLS.
    pub min_version: TlsVersion,
}

/// Mutual TLS of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerTls {
    /// Trust domains of clients.
    pub trust_domains: Vec<Arc<str>>,
    /// Lowest version of TLS.
    pub min_version: TlsVersion,
}

impl ServerTls {
    /// Settings of the mesh. Roots alone do not decide: they may sign for other trust domains.
    pub fn new(mesh: &MeshView) -> Self {
        Self {
            trust_domains: mesh.trust_domains().cloned().collect(),
            min_version: mesh.min_tls_version,
        }
    }
}

/// ALPN that clients in the mesh offer for HTTP over mutual TLS.
pub(super) const MESH_HTTP: [&str; 3] = ["istio-http/1.0", "istio-http/1.1", "istio-h2"];
/// ALPN that clients in the mesh offer for other protocols over mutual TLS.
pub(super) const MESH_TCP: [&str; 2] = ["istio-peer-exchange", "istio"];
/// Protocols that the HTTP inspector finds in plaintext.
pub(super) const PLAIN_HTTP: [&str; 2] = ["http/1.1", "h2c"];
/// ALPN of a client for HTTP/1.1.
pub(super) const HTTP1: [&str; 3] = ["istio-http/1.1", "istio", "http/1.1"];
/// ALPN of a client for HTTP/2.
pub(super) const HTTP2: [&str; 3] = ["istio-h2", "istio", "h2"];
const TCP: [&str; 1] = ["istio"];

/// Filter state of connections that need a socket other than the cluster's `transport_socket`: the
/// name of one of its [`socket_matches`].
pub(super) const SOCKET_KEY: &str = "io.outrigger.transport_socket";
/// Name of a cluster's socket without TLS.
pub(super) const PLAINTEXT: &str = "tlsMode-disabled";

/// Returns the choice of a cluster's socket by [`SOCKET_KEY`].
pub(super) fn socket_choice() -> Matcher {
    let action = TransportSocketNameAction { name: PLAINTEXT.to_owned() };
    let action = on_match::OnMatch::Action(extension(PLAINTEXT, &action));
    let action = OnMatch { on_match: Some(action), ..OnMatch::default() };
    let input = FilterStateInput { key: SOCKET_KEY.to_owned() };
    let map = matcher_tree::MatchMap { map: [(PLAINTEXT.to_owned(), action)].into() };
    let tree = MatcherTree {
        input: Some(extension("envoy.matching.inputs.transport_socket_filter_state", &input)),
        tree_type: Some(matcher_tree::TreeType::ExactMatchMap(map)),
    };
    Matcher { matcher_type: Some(matcher::MatcherType::MatcherTree(tree)), ..Matcher::default() }
}

fn extension<M: Message + Name>(name: &str, config: &M) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(any(config)) }
}

/// Returns the sockets of a cluster: mutual TLS for endpoints that take it, else plaintext.
pub(super) fn socket_matches(tls: &ClientTls) -> Vec<TransportSocketMatch> {
    let raw = socket("envoy.transport_sockets.raw_buffer", &RawBuffer {});
    vec![
        TransportSocketMatch {
            name: "tlsMode-istio".to_owned(),
            r#match: Some(tls_mode()),
            transport_socket: Some(client_socket(tls)),
        },
        TransportSocketMatch {
            name: PLAINTEXT.to_owned(),
            r#match: Some(Struct::default()),
            transport_socket: Some(raw),
        },
    ]
}

/// Metadata of endpoints that take mutual TLS.
pub(super) fn tls_mode() -> Struct {
    object([("tlsMode", text("istio"))])
}

/// Returns the socket of mutual TLS.
pub(super) fn client_socket(tls: &ClientTls) -> TransportSocket {
    let alpn: &[&str] = match tls.protocol.class() {
        ProtocolClass::Http if tls.protocol.is_http2() => &HTTP2,
        ProtocolClass::Http => &HTTP1,
        // HTTP on a port of undeclared protocol: the filter `alpn` of its listener overrides this.
        ProtocolClass::Tcp | ProtocolClass::Detected | ProtocolClass::Udp => &TCP,
    };
    let identities = tls
        .identities
        .iter()
        .map(|identity| san(string_matcher::MatchPattern::Exact(identity.clone())));
    let context = UpstreamTlsContext {
        common_tls_context: Some(common(tls.min_version, alpn, identities.collect())),
        sni: tls.server_name.clone(),
        ..UpstreamTlsContext::default()
    };
    socket(TLS, &context)
}

/// Returns the socket of an inbound port. Its own ALPN does not contain the mesh's names, which
/// would win over `h2`.
pub(super) fn server_socket(tls: &ServerTls, http: bool) -> TransportSocket {
    let alpn: &[&str] =
        if http { &["h2", "http/1.1"] } else { &["istio-peer-exchange", "h2", "http/1.1"] };
    let domains = tls
        .trust_domains
        .iter()
        .map(|domain| san(string_matcher::MatchPattern::Prefix(format!("spiffe://{domain}/"))));
    let context = DownstreamTlsContext {
        common_tls_context: Some(common(tls.min_version, alpn, domains.collect())),
        require_client_certificate: switch(true),
        ..DownstreamTlsContext::default()
    };
    socket(TLS, &context)
}

fn common(min: TlsVersion, alpn: &[&str], sans: Vec<SubjectAltNameMatcher>) -> CommonTlsContext {
    let min = match min {
        TlsVersion::V1_2 => tls_parameters::TlsProtocol::TlSv12,
        TlsVersion::V1_3 => tls_parameters::TlsProtocol::TlSv13,
    };
    let context = CertificateValidationContext {
        match_typed_subject_alt_names: sans,
        ..CertificateValidationContext::default()
    };
    let combined = CombinedCertificateValidationContext {
        default_validation_context: Some(context),
        validation_context_sds_secret_config: Some(secret(ROOTS)),
        ..CombinedCertificateValidationContext::default()
    };
    CommonTlsContext {
        tls_params: Some(TlsParameters {
            tls_minimum_protocol_version: min.into(),
            tls_maximum_protocol_version: tls_parameters::TlsProtocol::TlSv13.into(),
            ..TlsParameters::default()
        }),
        tls_certificate_sds_secret_configs: vec![secret(OWN_CERTIFICATE)],
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(combined)),
        alpn_protocols: alpn.iter().map(ToString::to_string).collect(),
        ..CommonTlsContext::default()
    }
}

fn san(pattern: string_matcher::MatchPattern) -> SubjectAltNameMatcher {
    SubjectAltNameMatcher {
        san_type: subject_alt_name_matcher::SanType::Uri.into(),
        matcher: Some(StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }),
        ..SubjectAltNameMatcher::default()
    }
}

fn secret(name: &str) -> SdsSecretConfig {
    let agent = grpc_service::EnvoyGrpc {
        cluster_name: SDS_CLUSTER.to_owned(),
        ..grpc_service::EnvoyGrpc::default()
    };
    let source = ApiConfigSource {
        api_type: api_config_source::ApiType::Grpc.into(),
        transport_api_version: ApiVersion::V3.into(),
        grpc_services: vec![GrpcService {
            target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(agent)),
            ..GrpcService::default()
        }],
        set_node_on_first_message_only: true,
        ..ApiConfigSource::default()
    };
    SdsSecretConfig {
        name: name.to_owned(),
        sds_config: Some(ConfigSource {
            resource_api_version: ApiVersion::V3.into(),
            initial_fetch_timeout: duration(Duration::ZERO),
            config_source_specifier: Some(config_source::ConfigSourceSpecifier::ApiConfigSource(
                source,
            )),
            ..ConfigSource::default()
        }),
    }
}

fn socket<M: Message + Name>(name: &str, context: &M) -> TransportSocket {
    TransportSocket {
        name: name.to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(any(context))),
    }
}

const TLS: &str = "envoy.transport_sockets.tls";
