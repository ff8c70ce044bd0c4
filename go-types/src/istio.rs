//! Messages of `istio.io/api/mesh/v1alpha1`, release 1.31, that are reachable from `MeshConfig`,
//! sorted by name.

use crate::FieldKind::{
    Any, Bool, Duration, Enum, Float, Int, List, Map, Pointer, String, Struct, Unsigned, Wrapper,
};
use crate::{STRING_MAP, STRINGS, Type, omitted, one_of};

static CERTIFICATE: Type = Type {
    id: 112,
    name: "v1alpha1.Certificate",
    fields: &[
        omitted("SecretName", "secretName", String),
        omitted("DnsNames", "dnsNames", STRINGS),
    ],
};

static CONFIG_SOURCE: Type = Type {
    id: 113,
    name: "v1alpha1.ConfigSource",
    fields: &[
        omitted("Address", "address", String),
        omitted("TlsSettings", "tlsSettings", Pointer(&Struct(&NETWORKING_CLIENT_TLS_SETTINGS))),
        omitted("SubscribedResources", "subscribedResources", List(&Enum(&["SERVICE_REGISTRY"]))),
    ],
};

static LABEL_SELECTOR: Type = Type {
    id: 114,
    name: "v1alpha1.LabelSelector",
    fields: &[
        omitted("MatchLabels", "matchLabels", STRING_MAP),
        omitted(
            "MatchExpressions",
            "matchExpressions",
            List(&Pointer(&Struct(&LABEL_SELECTOR_REQUIREMENT))),
        ),
    ],
};

static LABEL_SELECTOR_REQUIREMENT: Type = Type {
    id: 115,
    name: "v1alpha1.LabelSelectorRequirement",
    fields: &[
        omitted("Key", "key", String),
        omitted("Operator", "operator", String),
        omitted("Values", "values", STRINGS),
    ],
};

/// `mesh.v1alpha1.MeshConfig`
pub static MESH_CONFIG: Type = Type {
    id: 116,
    name: "v1alpha1.MeshConfig",
    fields: &[
        omitted("ProxyListenPort", "proxyListenPort", Int(32)),
        omitted("ProxyInboundListenPort", "proxyInboundListenPort", Int(32)),
        omitted("ProxyHttpPort", "proxyHttpPort", Int(32)),
        omitted("ConnectTimeout", "connectTimeout", Duration),
        omitted("HboneIdleTimeout", "hboneIdleTimeout", Duration),
        omitted("ProtocolDetectionTimeout", "protocolDetectionTimeout", Duration),
        omitted(
            "TcpKeepalive",
            "tcpKeepalive",
            Pointer(&Struct(&NETWORKING_CONNECTION_POOL_SETTINGS_TCP_SETTINGS_TCP_KEEPALIVE)),
        ),
        omitted("IngressClass", "ingressClass", String),
        omitted("IngressService", "ingressService", String),
        omitted(
            "IngressControllerMode",
            "ingressControllerMode",
            Enum(&["UNSPECIFIED", "OFF", "DEFAULT", "STRICT"]),
        ),
        omitted("IngressSelector", "ingressSelector", String),
        omitted("EnableTracing", "enableTracing", Bool),
        omitted("AccessLogFile", "accessLogFile", String),
        omitted("AccessLogFormat", "accessLogFormat", String),
        omitted("AccessLogEncoding", "accessLogEncoding", Enum(&["TEXT", "JSON"])),
        omitted("EnableEnvoyAccessLogService", "enableEnvoyAccessLogService", Bool),
        omitted("DisableEnvoyListenerLog", "disableEnvoyListenerLog", Bool),
        omitted("DefaultConfig", "defaultConfig", Pointer(&Struct(&PROXY_CONFIG))),
        omitted(
            "OutboundTrafficPolicy",
            "outboundTrafficPolicy",
            Pointer(&Struct(&MESH_CONFIG_OUTBOUND_TRAFFIC_POLICY)),
        ),
        omitted(
            "InboundTrafficPolicy",
            "inboundTrafficPolicy",
            Pointer(&Struct(&MESH_CONFIG_INBOUND_TRAFFIC_POLICY)),
        ),
        omitted("ConfigSources", "configSources", List(&Pointer(&Struct(&CONFIG_SOURCE)))),
        omitted("EnableAutoMtls", "enableAutoMtls", Wrapper(&Bool)),
        omitted("TrustDomain", "trustDomain", String),
        omitted("TrustDomainAliases", "trustDomainAliases", STRINGS),
        omitted(
            "CaCertificates",
            "caCertificates",
            List(&Pointer(&Struct(&MESH_CONFIG_CERTIFICATE_DATA))),
        ),
        omitted("DefaultServiceExportTo", "defaultServiceExportTo", STRINGS),
        omitted("DefaultVirtualServiceExportTo", "defaultVirtualServiceExportTo", STRINGS),
        omitted("DefaultDestinationRuleExportTo", "defaultDestinationRuleExportTo", STRINGS),
        omitted("RootNamespace", "rootNamespace", String),
        omitted(
            "LocalityLbSetting",
            "localityLbSetting",
            Pointer(&Struct(&NETWORKING_LOCALITY_LOAD_BALANCER_SETTING)),
        ),
        omitted(
            "ZoneAwareLbSetting",
            "zoneAwareLbSetting",
            Pointer(&Struct(&NETWORKING_ZONE_AWARE_LOAD_BALANCER_SETTING)),
        ),
        omitted("DnsRefreshRate", "dnsRefreshRate", Duration),
        omitted("H2UpgradePolicy", "h2UpgradePolicy", Enum(&["DO_NOT_UPGRADE", "UPGRADE"])),
        omitted("InboundClusterStatName", "inboundClusterStatName", String),
        omitted("OutboundClusterStatName", "outboundClusterStatName", String),
        omitted("Certificates", "certificates", List(&Pointer(&Struct(&CERTIFICATE)))),
        omitted(
            "ServiceSettings",
            "serviceSettings",
            List(&Pointer(&Struct(&MESH_CONFIG_SERVICE_SETTINGS))),
        ),
        omitted(
            "ServiceScopeConfigs",
            "serviceScopeConfigs",
            List(&Pointer(&Struct(&MESH_CONFIG_SERVICE_SCOPE_CONFIGS))),
        ),
        omitted("EnablePrometheusMerge", "enablePrometheusMerge", Wrapper(&Bool)),
        omitted("VerifyCertificateAtClient", "verifyCertificateAtClient", Wrapper(&Bool)),
        omitted("Ca", "ca", Pointer(&Struct(&MESH_CONFIG_CA))),
        omitted(
            "ExtensionProviders",
            "extensionProviders",
            List(&Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER))),
        ),
        omitted(
            "DefaultProviders",
            "defaultProviders",
            Pointer(&Struct(&MESH_CONFIG_DEFAULT_PROVIDERS)),
        ),
        omitted(
            "DiscoverySelectors",
            "discoverySelectors",
            List(&Pointer(&Struct(&LABEL_SELECTOR))),
        ),
        omitted(
            "PathNormalization",
            "pathNormalization",
            Pointer(&Struct(&MESH_CONFIG_PROXY_PATH_NORMALIZATION)),
        ),
        omitted(
            "DefaultHttpRetryPolicy",
            "defaultHttpRetryPolicy",
            Pointer(&Struct(&NETWORKING_HTTP_RETRY)),
        ),
        omitted("MeshMTLS", "meshMTLS", Pointer(&Struct(&MESH_CONFIG_TLS_CONFIG))),
        omitted("TlsDefaults", "tlsDefaults", Pointer(&Struct(&MESH_CONFIG_TLS_CONFIG))),
        omitted(
            "DefaultTrafficPolicy",
            "defaultTrafficPolicy",
            Pointer(&Struct(&MESH_CONFIG_DEFAULT_TRAFFIC_POLICY)),
        ),
        omitted(
            "ServiceEntryVisibility",
            "serviceEntryVisibility",
            Pointer(&Struct(&SERVICE_ENTRY_VISIBILITY)),
        ),
    ],
};

static MESH_CONFIG_CA: Type = Type {
    id: 117,
    name: "v1alpha1.MeshConfig_CA",
    fields: &[
        omitted("Address", "address", String),
        omitted("TlsSettings", "tlsSettings", Pointer(&Struct(&NETWORKING_CLIENT_TLS_SETTINGS))),
        omitted("RequestTimeout", "requestTimeout", Duration),
        omitted("IstiodSide", "istiodSide", Bool),
    ],
};

static MESH_CONFIG_CERTIFICATE_DATA: Type = Type {
    id: 118,
    name: "v1alpha1.MeshConfig_CertificateData",
    fields: &[
        one_of("Pem", "pem", String),
        one_of("SpiffeBundleUrl", "spiffeBundleUrl", String),
        omitted("CertSigners", "certSigners", STRINGS),
        omitted("TrustDomains", "trustDomains", STRINGS),
    ],
};

static MESH_CONFIG_DEFAULT_PROVIDERS: Type = Type {
    id: 119,
    name: "v1alpha1.MeshConfig_DefaultProviders",
    fields: &[
        omitted("Tracing", "tracing", STRINGS),
        omitted("Metrics", "metrics", STRINGS),
        omitted("AccessLogging", "accessLogging", STRINGS),
    ],
};

static MESH_CONFIG_DEFAULT_TRAFFIC_POLICY: Type = Type {
    id: 120,
    name: "v1alpha1.MeshConfig_DefaultTrafficPolicy",
    fields: &[
        omitted(
            "ConnectionPool",
            "connectionPool",
            Pointer(&Struct(&NETWORKING_CONNECTION_POOL_SETTINGS)),
        ),
        omitted(
            "OutlierDetection",
            "outlierDetection",
            Pointer(&Struct(&NETWORKING_OUTLIER_DETECTION)),
        ),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER: Type = Type {
    id: 121,
    name: "v1alpha1.MeshConfig_ExtensionProvider",
    fields: &[
        omitted("Name", "name", String),
        one_of(
            "EnvoyExtAuthzHttp",
            "envoyExtAuthzHttp",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_HTTP_PROVIDER,
            )),
        ),
        one_of(
            "EnvoyExtAuthzGrpc",
            "envoyExtAuthzGrpc",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_GRPC_PROVIDER,
            )),
        ),
        one_of(
            "Zipkin",
            "zipkin",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_ZIPKIN_TRACING_PROVIDER)),
        ),
        one_of(
            "Lightstep",
            "lightstep",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_LIGHTSTEP_TRACING_PROVIDER)),
        ),
        one_of(
            "Datadog",
            "datadog",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_DATADOG_TRACING_PROVIDER)),
        ),
        one_of(
            "Stackdriver",
            "stackdriver",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_STACKDRIVER_PROVIDER)),
        ),
        one_of(
            "Opencensus",
            "opencensus",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_OPEN_CENSUS_AGENT_TRACING_PROVIDER)),
        ),
        one_of(
            "Skywalking",
            "skywalking",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_SKY_WALKING_TRACING_PROVIDER)),
        ),
        one_of(
            "Opentelemetry",
            "opentelemetry",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER)),
        ),
        one_of(
            "Prometheus",
            "prometheus",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_PROMETHEUS_METRICS_PROVIDER)),
        ),
        one_of(
            "EnvoyFileAccessLog",
            "envoyFileAccessLog",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_FILE_ACCESS_LOG_PROVIDER)),
        ),
        one_of(
            "EnvoyHttpAls",
            "envoyHttpAls",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_HTTP_GRPC_V3_LOG_PROVIDER)),
        ),
        one_of(
            "EnvoyTcpAls",
            "envoyTcpAls",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_TCP_GRPC_V3_LOG_PROVIDER)),
        ),
        one_of(
            "EnvoyOtelAls",
            "envoyOtelAls",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_OPEN_TELEMETRY_LOG_PROVIDER)),
        ),
        one_of("Sds", "sds", Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_SDS_PROVIDER))),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_DATADOG_TRACING_PROVIDER: Type = Type {
    id: 122,
    name: "v1alpha1.MeshConfig_ExtensionProvider_DatadogTracingProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("MaxTagLength", "maxTagLength", Int(32)),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_GRPC_PROVIDER: Type = Type {
    id: 123,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("Timeout", "timeout", Duration),
        omitted("FailOpen", "failOpen", Bool),
        omitted("ClearRouteCache", "clearRouteCache", Bool),
        omitted("StatusOnError", "statusOnError", String),
        omitted(
            "IncludeRequestBodyInCheck",
            "includeRequestBodyInCheck",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_REQUEST_BODY,
            )),
        ),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_HTTP_PROVIDER: Type = Type {
    id: 124,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("Timeout", "timeout", Duration),
        omitted("PathPrefix", "pathPrefix", String),
        omitted("FailOpen", "failOpen", Bool),
        omitted("ClearRouteCache", "clearRouteCache", Bool),
        omitted("StatusOnError", "statusOnError", String),
        omitted("IncludeHeadersInCheck", "includeHeadersInCheck", STRINGS),
        omitted("IncludeRequestHeadersInCheck", "includeRequestHeadersInCheck", STRINGS),
        omitted("IncludeAdditionalHeadersInCheck", "includeAdditionalHeadersInCheck", STRING_MAP),
        omitted(
            "IncludeRequestBodyInCheck",
            "includeRequestBodyInCheck",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_REQUEST_BODY,
            )),
        ),
        omitted("HeadersToUpstreamOnAllow", "headersToUpstreamOnAllow", STRINGS),
        omitted("HeadersToDownstreamOnDeny", "headersToDownstreamOnDeny", STRINGS),
        omitted("HeadersToDownstreamOnAllow", "headersToDownstreamOnAllow", STRINGS),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_REQUEST_BODY: Type = Type {
    id: 125,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody",
    fields: &[
        omitted("MaxRequestBytes", "maxRequestBytes", Int(32)),
        omitted("AllowPartialMessage", "allowPartialMessage", Bool),
        omitted("PackAsBytes", "packAsBytes", Bool),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_FILE_ACCESS_LOG_PROVIDER: Type = Type {
    id: 126,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider",
    fields: &[
        omitted("Path", "path", String),
        omitted(
            "LogFormat",
            "logFormat",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_FILE_ACCESS_LOG_PROVIDER_LOG_FORMAT,
            )),
        ),
        omitted("OmitEmptyValues", "omitEmptyValues", Bool),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_FILE_ACCESS_LOG_PROVIDER_LOG_FORMAT: Type = Type {
    id: 127,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat",
    fields: &[one_of("Text", "text", String), one_of("Labels", "labels", Any)],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_HTTP_GRPC_V3_LOG_PROVIDER: Type = Type {
    id: 128,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyHttpGrpcV3LogProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("LogName", "logName", String),
        omitted("FilterStateObjectsToLog", "filterStateObjectsToLog", STRINGS),
        omitted("AdditionalRequestHeadersToLog", "additionalRequestHeadersToLog", STRINGS),
        omitted("AdditionalResponseHeadersToLog", "additionalResponseHeadersToLog", STRINGS),
        omitted("AdditionalResponseTrailersToLog", "additionalResponseTrailersToLog", STRINGS),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_OPEN_TELEMETRY_LOG_PROVIDER: Type = Type {
    id: 129,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyOpenTelemetryLogProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("LogName", "logName", String),
        omitted(
            "LogFormat",
            "logFormat",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_OPEN_TELEMETRY_LOG_PROVIDER_LOG_FORMAT,
            )),
        ),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_OPEN_TELEMETRY_LOG_PROVIDER_LOG_FORMAT: Type = Type {
    id: 130,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyOpenTelemetryLogProvider_LogFormat",
    fields: &[omitted("Text", "text", String), omitted("Labels", "labels", Any)],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_TCP_GRPC_V3_LOG_PROVIDER: Type = Type {
    id: 131,
    name: "v1alpha1.MeshConfig_ExtensionProvider_EnvoyTcpGrpcV3LogProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("LogName", "logName", String),
        omitted("FilterStateObjectsToLog", "filterStateObjectsToLog", STRINGS),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_GRPC_SERVICE: Type = Type {
    id: 132,
    name: "v1alpha1.MeshConfig_ExtensionProvider_GrpcService",
    fields: &[
        omitted("Timeout", "timeout", Duration),
        omitted(
            "InitialMetadata",
            "initialMetadata",
            List(&Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_HTTP_HEADER))),
        ),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_HTTP_HEADER: Type = Type {
    id: 133,
    name: "v1alpha1.MeshConfig_ExtensionProvider_HttpHeader",
    fields: &[
        omitted("Name", "name", String),
        one_of("Value", "value", String),
        one_of("EnvName", "envName", String),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_HTTP_SERVICE: Type = Type {
    id: 134,
    name: "v1alpha1.MeshConfig_ExtensionProvider_HttpService",
    fields: &[
        omitted("Path", "path", String),
        omitted("Timeout", "timeout", Duration),
        omitted(
            "Headers",
            "headers",
            List(&Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_HTTP_HEADER))),
        ),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_LIGHTSTEP_TRACING_PROVIDER: Type = Type {
    id: 135,
    name: "v1alpha1.MeshConfig_ExtensionProvider_LightstepTracingProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("AccessToken", "accessToken", String),
        omitted("MaxTagLength", "maxTagLength", Int(32)),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_OPEN_CENSUS_AGENT_TRACING_PROVIDER: Type = Type {
    id: 136,
    name: "v1alpha1.MeshConfig_ExtensionProvider_OpenCensusAgentTracingProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted(
            "Context",
            "context",
            List(&Enum(&[
                "UNSPECIFIED",
                "W3C_TRACE_CONTEXT",
                "GRPC_BIN",
                "CLOUD_TRACE_CONTEXT",
                "B3",
            ])),
        ),
        omitted("MaxTagLength", "maxTagLength", Int(32)),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER: Type = Type {
    id: 137,
    name: "v1alpha1.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("MaxTagLength", "maxTagLength", Int(32)),
        omitted("Http", "http", Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_HTTP_SERVICE))),
        omitted("Grpc", "grpc", Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_GRPC_SERVICE))),
        omitted(
            "ResourceDetectors",
            "resourceDetectors",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS)),
        ),
        omitted(
            "ServiceAttributeEnrichment",
            "serviceAttributeEnrichment",
            Enum(&["ISTIO_CANONICAL", "OTEL_SEMANTIC_CONVENTIONS"]),
        ),
        one_of(
            "DynatraceSampler",
            "dynatraceSampler",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER_DYNATRACE_SAMPLER,
            )),
        ),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER_DYNATRACE_SAMPLER: Type = Type {
    id: 138,
    name: "v1alpha1.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider_DynatraceSampler",
    fields: &[
        omitted("Tenant", "tenant", String),
        omitted("ClusterId", "clusterId", Int(32)),
        omitted("RootSpansPerMinute", "rootSpansPerMinute", Int(32)),
        omitted("HttpService", "httpService", Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER_DYNATRACE_SAMPLER_DYNATRACE_API))),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER_DYNATRACE_SAMPLER_DYNATRACE_API: Type = Type {
    id: 139,
    name: "v1alpha1.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider_DynatraceSampler_DynatraceApi",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("Http", "http", Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_HTTP_SERVICE))),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_PROMETHEUS_METRICS_PROVIDER: Type = Type {
    id: 140,
    name: "v1alpha1.MeshConfig_ExtensionProvider_PrometheusMetricsProvider",
    fields: &[],
};

static MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS: Type = Type {
    id: 141,
    name: "v1alpha1.MeshConfig_ExtensionProvider_ResourceDetectors",
    fields: &[
        omitted(
            "Environment",
            "environment",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS_ENVIRONMENT_RESOURCE_DETECTOR,
            )),
        ),
        omitted(
            "Dynatrace",
            "dynatrace",
            Pointer(&Struct(
                &MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS_DYNATRACE_RESOURCE_DETECTOR,
            )),
        ),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS_DYNATRACE_RESOURCE_DETECTOR: Type = Type {
    id: 142,
    name: "v1alpha1.MeshConfig_ExtensionProvider_ResourceDetectors_DynatraceResourceDetector",
    fields: &[],
};

static MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS_ENVIRONMENT_RESOURCE_DETECTOR: Type =
    Type {
        id: 143,
        name: "v1alpha1.MeshConfig_ExtensionProvider_ResourceDetectors_EnvironmentResourceDetector",
        fields: &[],
    };

static MESH_CONFIG_EXTENSION_PROVIDER_SDS_PROVIDER: Type = Type {
    id: 144,
    name: "v1alpha1.MeshConfig_ExtensionProvider_SDSProvider",
    fields: &[
        omitted("Name", "name", String),
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_SKY_WALKING_TRACING_PROVIDER: Type = Type {
    id: 145,
    name: "v1alpha1.MeshConfig_ExtensionProvider_SkyWalkingTracingProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("AccessToken", "accessToken", String),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_STACKDRIVER_PROVIDER: Type = Type {
    id: 146,
    name: "v1alpha1.MeshConfig_ExtensionProvider_StackdriverProvider",
    fields: &[
        omitted("Debug", "debug", Bool),
        omitted("MaxNumberOfAttributes", "maxNumberOfAttributes", Wrapper(&Int(64))),
        omitted("MaxNumberOfAnnotations", "maxNumberOfAnnotations", Wrapper(&Int(64))),
        omitted("MaxNumberOfMessageEvents", "maxNumberOfMessageEvents", Wrapper(&Int(64))),
        omitted("MaxTagLength", "maxTagLength", Int(32)),
        omitted(
            "Logging",
            "logging",
            Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_STACKDRIVER_PROVIDER_LOGGING)),
        ),
    ],
};

static MESH_CONFIG_EXTENSION_PROVIDER_STACKDRIVER_PROVIDER_LOGGING: Type = Type {
    id: 147,
    name: "v1alpha1.MeshConfig_ExtensionProvider_StackdriverProvider_Logging",
    fields: &[omitted("Labels", "labels", STRING_MAP)],
};

static MESH_CONFIG_EXTENSION_PROVIDER_ZIPKIN_TRACING_PROVIDER: Type = Type {
    id: 148,
    name: "v1alpha1.MeshConfig_ExtensionProvider_ZipkinTracingProvider",
    fields: &[
        omitted("Service", "service", String),
        omitted("Port", "port", Int(32)),
        omitted("MaxTagLength", "maxTagLength", Int(32)),
        omitted("Enable_64BitTraceId", "enable64bitTraceId", Bool),
        omitted("Path", "path", String),
        omitted(
            "TraceContextOption",
            "traceContextOption",
            Enum(&["USE_B3", "USE_B3_WITH_W3C_PROPAGATION"]),
        ),
        omitted("Timeout", "timeout", Duration),
        omitted(
            "Headers",
            "headers",
            List(&Pointer(&Struct(&MESH_CONFIG_EXTENSION_PROVIDER_HTTP_HEADER))),
        ),
    ],
};

static MESH_CONFIG_INBOUND_TRAFFIC_POLICY: Type = Type {
    id: 149,
    name: "v1alpha1.MeshConfig_InboundTrafficPolicy",
    fields: &[omitted("Mode", "mode", Enum(&["PASSTHROUGH", "LOCALHOST"]))],
};

static MESH_CONFIG_OUTBOUND_TRAFFIC_POLICY: Type = Type {
    id: 150,
    name: "v1alpha1.MeshConfig_OutboundTrafficPolicy",
    fields: &[
        omitted("Mode", "mode", Enum(&["REGISTRY_ONLY", "ALLOW_ANY", "ALLOW_ANY_DYNAMIC_DNS"])),
        omitted("Tls", "tls", Pointer(&Struct(&NETWORKING_CLIENT_TLS_SETTINGS))),
    ],
};

static MESH_CONFIG_PROXY_PATH_NORMALIZATION: Type = Type {
    id: 151,
    name: "v1alpha1.MeshConfig_ProxyPathNormalization",
    fields: &[omitted(
        "Normalization",
        "normalization",
        Enum(&["DEFAULT", "NONE", "BASE", "MERGE_SLASHES", "DECODE_AND_MERGE_SLASHES"]),
    )],
};

static MESH_CONFIG_SERVICE_SCOPE_CONFIGS: Type = Type {
    id: 152,
    name: "v1alpha1.MeshConfig_ServiceScopeConfigs",
    fields: &[
        omitted("NamespaceSelector", "namespaceSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        omitted("ServicesSelector", "servicesSelector", Pointer(&Struct(&LABEL_SELECTOR))),
        omitted("Scope", "scope", Enum(&["LOCAL", "GLOBAL"])),
    ],
};

static MESH_CONFIG_SERVICE_SETTINGS: Type = Type {
    id: 153,
    name: "v1alpha1.MeshConfig_ServiceSettings",
    fields: &[
        omitted("Settings", "settings", Pointer(&Struct(&MESH_CONFIG_SERVICE_SETTINGS_SETTINGS))),
        omitted("Hosts", "hosts", STRINGS),
    ],
};

static MESH_CONFIG_SERVICE_SETTINGS_SETTINGS: Type = Type {
    id: 154,
    name: "v1alpha1.MeshConfig_ServiceSettings_Settings",
    fields: &[omitted("ClusterLocal", "clusterLocal", Bool)],
};

static MESH_CONFIG_TLS_CONFIG: Type = Type {
    id: 155,
    name: "v1alpha1.MeshConfig_TLSConfig",
    fields: &[
        omitted(
            "MinProtocolVersion",
            "minProtocolVersion",
            Enum(&["TLS_AUTO", "TLSV1_2", "TLSV1_3"]),
        ),
        omitted("EcdhCurves", "ecdhCurves", STRINGS),
        omitted("CipherSuites", "cipherSuites", STRINGS),
    ],
};

static NETWORKING_CLIENT_TLS_SETTINGS: Type = Type {
    id: 156,
    name: "v1alpha3.ClientTLSSettings",
    fields: &[
        omitted("Mode", "mode", Enum(&["DISABLE", "SIMPLE", "MUTUAL", "ISTIO_MUTUAL"])),
        omitted("ClientCertificate", "clientCertificate", String),
        omitted("PrivateKey", "privateKey", String),
        omitted("CaCertificates", "caCertificates", String),
        omitted("CredentialName", "credentialName", String),
        omitted("SubjectAltNames", "subjectAltNames", STRINGS),
        omitted("Sni", "sni", String),
        omitted("InsecureSkipVerify", "insecureSkipVerify", Wrapper(&Bool)),
        omitted("CaCrl", "caCrl", String),
    ],
};

static NETWORKING_CONNECTION_POOL_SETTINGS: Type = Type {
    id: 157,
    name: "v1alpha3.ConnectionPoolSettings",
    fields: &[
        omitted("Tcp", "tcp", Pointer(&Struct(&NETWORKING_CONNECTION_POOL_SETTINGS_TCP_SETTINGS))),
        omitted(
            "Http",
            "http",
            Pointer(&Struct(&NETWORKING_CONNECTION_POOL_SETTINGS_HTTP_SETTINGS)),
        ),
    ],
};

static NETWORKING_CONNECTION_POOL_SETTINGS_HTTP_SETTINGS: Type = Type {
    id: 158,
    name: "v1alpha3.ConnectionPoolSettings_HTTPSettings",
    fields: &[
        omitted("Http1MaxPendingRequests", "http1MaxPendingRequests", Int(32)),
        omitted("Http2MaxRequests", "http2MaxRequests", Int(32)),
        omitted("MaxRequestsPerConnection", "maxRequestsPerConnection", Int(32)),
        omitted("MaxRetries", "maxRetries", Int(32)),
        omitted("IdleTimeout", "idleTimeout", Duration),
        omitted(
            "H2UpgradePolicy",
            "h2UpgradePolicy",
            Enum(&["DEFAULT", "DO_NOT_UPGRADE", "UPGRADE"]),
        ),
        omitted("UseClientProtocol", "useClientProtocol", Bool),
        omitted("MaxConcurrentStreams", "maxConcurrentStreams", Int(32)),
        omitted(
            "Http2KeepAlive",
            "http2KeepAlive",
            Pointer(&Struct(
                &NETWORKING_CONNECTION_POOL_SETTINGS_HTTP_SETTINGS_CONNECTION_KEEPALIVE,
            )),
        ),
    ],
};

static NETWORKING_CONNECTION_POOL_SETTINGS_HTTP_SETTINGS_CONNECTION_KEEPALIVE: Type = Type {
    id: 159,
    name: "v1alpha3.ConnectionPoolSettings_HTTPSettings_ConnectionKeepalive",
    fields: &[omitted("Interval", "interval", Duration), omitted("Timeout", "timeout", Duration)],
};

static NETWORKING_CONNECTION_POOL_SETTINGS_TCP_SETTINGS: Type = Type {
    id: 160,
    name: "v1alpha3.ConnectionPoolSettings_TCPSettings",
    fields: &[
        omitted("MaxConnections", "maxConnections", Int(32)),
        omitted("ConnectTimeout", "connectTimeout", Duration),
        omitted(
            "TcpKeepalive",
            "tcpKeepalive",
            Pointer(&Struct(&NETWORKING_CONNECTION_POOL_SETTINGS_TCP_SETTINGS_TCP_KEEPALIVE)),
        ),
        omitted("MaxConnectionDuration", "maxConnectionDuration", Duration),
        omitted("IdleTimeout", "idleTimeout", Duration),
    ],
};

static NETWORKING_CONNECTION_POOL_SETTINGS_TCP_SETTINGS_TCP_KEEPALIVE: Type = Type {
    id: 161,
    name: "v1alpha3.ConnectionPoolSettings_TCPSettings_TcpKeepalive",
    fields: &[
        omitted("Probes", "probes", Unsigned),
        omitted("Time", "time", Duration),
        omitted("Interval", "interval", Duration),
    ],
};

static NETWORKING_EXEC_HEALTH_CHECK_CONFIG: Type = Type {
    id: 162,
    name: "v1alpha3.ExecHealthCheckConfig",
    fields: &[omitted("Command", "command", STRINGS)],
};

static NETWORKING_GRPC_HEALTH_CHECK_CONFIG: Type = Type {
    id: 163,
    name: "v1alpha3.GrpcHealthCheckConfig",
    fields: &[omitted("Port", "port", Unsigned), omitted("Service", "service", String)],
};

static NETWORKING_HTTP_HEADER: Type = Type {
    id: 164,
    name: "v1alpha3.HTTPHeader",
    fields: &[omitted("Name", "name", String), omitted("Value", "value", String)],
};

static NETWORKING_HTTP_HEALTH_CHECK_CONFIG: Type = Type {
    id: 165,
    name: "v1alpha3.HTTPHealthCheckConfig",
    fields: &[
        omitted("Path", "path", String),
        omitted("Port", "port", Unsigned),
        omitted("Host", "host", String),
        omitted("Scheme", "scheme", String),
        omitted("HttpHeaders", "httpHeaders", List(&Pointer(&Struct(&NETWORKING_HTTP_HEADER)))),
    ],
};

static NETWORKING_HTTP_RETRY: Type = Type {
    id: 166,
    name: "v1alpha3.HTTPRetry",
    fields: &[
        omitted("Attempts", "attempts", Int(32)),
        omitted("PerTryTimeout", "perTryTimeout", Duration),
        omitted("RetryOn", "retryOn", String),
        omitted("RetryRemoteLocalities", "retryRemoteLocalities", Wrapper(&Bool)),
        omitted("RetryIgnorePreviousHosts", "retryIgnorePreviousHosts", Wrapper(&Bool)),
        omitted("Backoff", "backoff", Duration),
    ],
};

static NETWORKING_LOCALITY_LOAD_BALANCER_SETTING: Type = Type {
    id: 167,
    name: "v1alpha3.LocalityLoadBalancerSetting",
    fields: &[
        omitted(
            "Distribute",
            "distribute",
            List(&Pointer(&Struct(&NETWORKING_LOCALITY_LOAD_BALANCER_SETTING_DISTRIBUTE))),
        ),
        omitted(
            "Failover",
            "failover",
            List(&Pointer(&Struct(&NETWORKING_LOCALITY_LOAD_BALANCER_SETTING_FAILOVER))),
        ),
        omitted("FailoverPriority", "failoverPriority", STRINGS),
        omitted("Enabled", "enabled", Wrapper(&Bool)),
    ],
};

static NETWORKING_LOCALITY_LOAD_BALANCER_SETTING_DISTRIBUTE: Type = Type {
    id: 168,
    name: "v1alpha3.LocalityLoadBalancerSetting_Distribute",
    fields: &[omitted("From", "from", String), omitted("To", "to", Map(&Int(32)))],
};

static NETWORKING_LOCALITY_LOAD_BALANCER_SETTING_FAILOVER: Type = Type {
    id: 169,
    name: "v1alpha3.LocalityLoadBalancerSetting_Failover",
    fields: &[omitted("From", "from", String), omitted("To", "to", String)],
};

static NETWORKING_OUTLIER_DETECTION: Type = Type {
    id: 170,
    name: "v1alpha3.OutlierDetection",
    fields: &[
        omitted("ConsecutiveErrors", "consecutiveErrors", Int(32)),
        omitted("SplitExternalLocalOriginErrors", "splitExternalLocalOriginErrors", Bool),
        omitted(
            "ConsecutiveLocalOriginFailures",
            "consecutiveLocalOriginFailures",
            Wrapper(&Int(32)),
        ),
        omitted("ConsecutiveGatewayErrors", "consecutiveGatewayErrors", Wrapper(&Int(32))),
        omitted("Consecutive_5XxErrors", "consecutive5xxErrors", Wrapper(&Int(32))),
        omitted("Interval", "interval", Duration),
        omitted("BaseEjectionTime", "baseEjectionTime", Duration),
        omitted("MaxEjectionPercent", "maxEjectionPercent", Int(32)),
        omitted("MinHealthPercent", "minHealthPercent", Int(32)),
        omitted("OutlierDetectionHttpErrorCodes", "outlierDetectionHttpErrorCodes", List(&Int(32))),
    ],
};

static NETWORKING_PROXY_IMAGE: Type = Type {
    id: 171,
    name: "v1alpha3.ProxyImage",
    fields: &[omitted("ImageType", "imageType", String)],
};

static NETWORKING_READINESS_PROBE: Type = Type {
    id: 172,
    name: "v1alpha3.ReadinessProbe",
    fields: &[
        omitted("InitialDelaySeconds", "initialDelaySeconds", Int(32)),
        omitted("TimeoutSeconds", "timeoutSeconds", Int(32)),
        omitted("PeriodSeconds", "periodSeconds", Int(32)),
        omitted("SuccessThreshold", "successThreshold", Int(32)),
        omitted("FailureThreshold", "failureThreshold", Int(32)),
        one_of("HttpGet", "httpGet", Pointer(&Struct(&NETWORKING_HTTP_HEALTH_CHECK_CONFIG))),
        one_of("TcpSocket", "tcpSocket", Pointer(&Struct(&NETWORKING_TCP_HEALTH_CHECK_CONFIG))),
        one_of("Exec", "exec", Pointer(&Struct(&NETWORKING_EXEC_HEALTH_CHECK_CONFIG))),
        one_of("Grpc", "grpc", Pointer(&Struct(&NETWORKING_GRPC_HEALTH_CHECK_CONFIG))),
    ],
};

static NETWORKING_TCP_HEALTH_CHECK_CONFIG: Type = Type {
    id: 173,
    name: "v1alpha3.TCPHealthCheckConfig",
    fields: &[omitted("Host", "host", String), omitted("Port", "port", Unsigned)],
};

static NETWORKING_ZONE_AWARE_LOAD_BALANCER_SETTING: Type = Type {
    id: 174,
    name: "v1alpha3.ZoneAwareLoadBalancerSetting",
    fields: &[
        omitted("Enabled", "enabled", Wrapper(&Bool)),
        omitted(
            "Failover",
            "failover",
            List(&Pointer(&Struct(&NETWORKING_ZONE_AWARE_LOAD_BALANCER_SETTING_FAILOVER))),
        ),
        omitted("FailoverPriority", "failoverPriority", STRINGS),
        omitted("MinClusterSize", "minClusterSize", Wrapper(&Int(32))),
    ],
};

static NETWORKING_ZONE_AWARE_LOAD_BALANCER_SETTING_FAILOVER: Type = Type {
    id: 175,
    name: "v1alpha3.ZoneAwareLoadBalancerSetting_Failover",
    fields: &[omitted("From", "from", String), omitted("To", "to", String)],
};

static PRIVATE_KEY_PROVIDER: Type = Type {
    id: 176,
    name: "v1alpha1.PrivateKeyProvider",
    fields: &[
        one_of("Cryptomb", "cryptomb", Pointer(&Struct(&PRIVATE_KEY_PROVIDER_CRYPTO_MB))),
        one_of("Qat", "qat", Pointer(&Struct(&PRIVATE_KEY_PROVIDER_QAT))),
    ],
};

static PRIVATE_KEY_PROVIDER_CRYPTO_MB: Type = Type {
    id: 177,
    name: "v1alpha1.PrivateKeyProvider_CryptoMb",
    fields: &[
        omitted("PollDelay", "pollDelay", Duration),
        omitted("Fallback", "fallback", Wrapper(&Bool)),
    ],
};

static PRIVATE_KEY_PROVIDER_QAT: Type = Type {
    id: 178,
    name: "v1alpha1.PrivateKeyProvider_QAT",
    fields: &[
        omitted("PollDelay", "pollDelay", Duration),
        omitted("Fallback", "fallback", Wrapper(&Bool)),
    ],
};

/// `mesh.v1alpha1.ProxyConfig`
pub static PROXY_CONFIG: Type = Type {
    id: 179,
    name: "v1alpha1.ProxyConfig",
    fields: &[
        omitted("ConfigPath", "configPath", String),
        omitted("BinaryPath", "binaryPath", String),
        one_of("ServiceCluster", "serviceCluster", String),
        one_of(
            "TracingServiceName",
            "tracingServiceName",
            Enum(&[
                "APP_LABEL_AND_NAMESPACE",
                "CANONICAL_NAME_ONLY",
                "CANONICAL_NAME_AND_NAMESPACE",
            ]),
        ),
        omitted("DrainDuration", "drainDuration", Duration),
        omitted("DiscoveryAddress", "discoveryAddress", String),
        omitted("DiscoveryRefreshDelay", "discoveryRefreshDelay", Duration),
        omitted("ZipkinAddress", "zipkinAddress", String),
        omitted("StatsdUdpAddress", "statsdUdpAddress", String),
        omitted("EnvoyMetricsServiceAddress", "envoyMetricsServiceAddress", String),
        omitted("ProxyAdminPort", "proxyAdminPort", Int(32)),
        omitted("AvailabilityZone", "availabilityZone", String),
        omitted(
            "ControlPlaneAuthPolicy",
            "controlPlaneAuthPolicy",
            Enum(&["NONE", "MUTUAL_TLS", "INHERIT"]),
        ),
        omitted("CustomConfigFile", "customConfigFile", String),
        omitted("StatNameLength", "statNameLength", Int(32)),
        omitted("Concurrency", "concurrency", Wrapper(&Int(32))),
        omitted("ProxyBootstrapTemplatePath", "proxyBootstrapTemplatePath", String),
        omitted("InterceptionMode", "interceptionMode", Enum(&["REDIRECT", "TPROXY", "NONE"])),
        omitted("Tracing", "tracing", Pointer(&Struct(&TRACING))),
        omitted("Sds", "sds", Pointer(&Struct(&SDS))),
        omitted(
            "EnvoyAccessLogService",
            "envoyAccessLogService",
            Pointer(&Struct(&REMOTE_SERVICE)),
        ),
        omitted("EnvoyMetricsService", "envoyMetricsService", Pointer(&Struct(&REMOTE_SERVICE))),
        omitted("ProxyMetadata", "proxyMetadata", STRING_MAP),
        omitted("RuntimeValues", "runtimeValues", STRING_MAP),
        omitted("StatusPort", "statusPort", Int(32)),
        omitted("ExtraStatTags", "extraStatTags", STRINGS),
        omitted("GatewayTopology", "gatewayTopology", Pointer(&Struct(&TOPOLOGY))),
        omitted("TerminationDrainDuration", "terminationDrainDuration", Duration),
        omitted("MeshId", "meshId", String),
        omitted("ReadinessProbe", "readinessProbe", Pointer(&Struct(&NETWORKING_READINESS_PROBE))),
        omitted(
            "ProxyStatsMatcher",
            "proxyStatsMatcher",
            Pointer(&Struct(&PROXY_CONFIG_PROXY_STATS_MATCHER)),
        ),
        omitted(
            "HoldApplicationUntilProxyStarts",
            "holdApplicationUntilProxyStarts",
            Wrapper(&Bool),
        ),
        omitted("CaCertificatesPem", "caCertificatesPem", STRINGS),
        omitted("Image", "image", Pointer(&Struct(&NETWORKING_PROXY_IMAGE))),
        omitted(
            "PrivateKeyProvider",
            "privateKeyProvider",
            Pointer(&Struct(&PRIVATE_KEY_PROVIDER)),
        ),
        omitted("ProxyHeaders", "proxyHeaders", Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS))),
        omitted("FileFlushInterval", "fileFlushInterval", Duration),
        omitted("FileFlushMinSizeKb", "fileFlushMinSizeKb", Unsigned),
        omitted("StatsCompression", "statsCompression", Wrapper(&Bool)),
        omitted(
            "ConnectionSettings",
            "connectionSettings",
            Pointer(&Struct(&PROXY_CONFIG_CONNECTION_SETTINGS)),
        ),
    ],
};

static PROXY_CONFIG_CONNECTION_SETTINGS: Type = Type {
    id: 180,
    name: "v1alpha1.ProxyConfig_ConnectionSettings",
    fields: &[
        omitted("Profile", "profile", Enum(&["SIDECAR", "EDGE"])),
        omitted(
            "ListenerPerConnectionBufferLimitBytes",
            "listenerPerConnectionBufferLimitBytes",
            Wrapper(&Int(32)),
        ),
        omitted(
            "ClusterPerConnectionBufferLimitBytes",
            "clusterPerConnectionBufferLimitBytes",
            Wrapper(&Int(32)),
        ),
        omitted("HttpIdleTimeout", "httpIdleTimeout", Duration),
        omitted("HttpMaxConnectionDuration", "httpMaxConnectionDuration", Duration),
        omitted("HttpDrainTimeout", "httpDrainTimeout", Duration),
        omitted("HttpRequestTimeout", "httpRequestTimeout", Duration),
        omitted("HttpRequestHeadersTimeout", "httpRequestHeadersTimeout", Duration),
        omitted("HttpStreamIdleTimeout", "httpStreamIdleTimeout", Duration),
        omitted("HttpMaxStreamDuration", "httpMaxStreamDuration", Duration),
        omitted("HttpMaxConcurrentStreams", "httpMaxConcurrentStreams", Wrapper(&Int(32))),
        omitted("Http2InitialStreamWindowSize", "http2InitialStreamWindowSize", Wrapper(&Int(32))),
        omitted(
            "Http2InitialConnectionWindowSize",
            "http2InitialConnectionWindowSize",
            Wrapper(&Int(32)),
        ),
        omitted(
            "HttpHeadersWithUnderscoresAction",
            "httpHeadersWithUnderscoresAction",
            Enum(&[
                "HEADERS_WITH_UNDERSCORES_UNSPECIFIED",
                "HEADERS_WITH_UNDERSCORES_ALLOW",
                "HEADERS_WITH_UNDERSCORES_REJECT_REQUEST",
                "HEADERS_WITH_UNDERSCORES_DROP_HEADER",
            ]),
        ),
        omitted("HttpMergeSlashes", "httpMergeSlashes", Wrapper(&Bool)),
        omitted(
            "HttpPathWithEscapedSlashesAction",
            "httpPathWithEscapedSlashesAction",
            Enum(&[
                "PATH_WITH_ESCAPED_SLASHES_UNSPECIFIED",
                "KEEP_UNCHANGED",
                "REJECT_REQUEST",
                "UNESCAPE_AND_REDIRECT",
                "UNESCAPE_AND_FORWARD",
            ]),
        ),
        omitted("ListenerConnectionLimit", "listenerConnectionLimit", Wrapper(&Int(32))),
        omitted(
            "GlobalDownstreamConnectionLimit",
            "globalDownstreamConnectionLimit",
            Wrapper(&Int(32)),
        ),
    ],
};

static PROXY_CONFIG_PROXY_HEADERS: Type = Type {
    id: 181,
    name: "v1alpha1.ProxyConfig_ProxyHeaders",
    fields: &[
        omitted(
            "ForwardedClientCert",
            "forwardedClientCert",
            Enum(&[
                "UNDEFINED",
                "SANITIZE",
                "FORWARD_ONLY",
                "APPEND_FORWARD",
                "SANITIZE_SET",
                "ALWAYS_FORWARD_ONLY",
            ]),
        ),
        omitted(
            "SetCurrentClientCertDetails",
            "setCurrentClientCertDetails",
            Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS_SET_CURRENT_CLIENT_CERT_DETAILS)),
        ),
        omitted("RequestId", "requestId", Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS_REQUEST_ID))),
        omitted("Server", "server", Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS_SERVER))),
        omitted(
            "AttemptCount",
            "attemptCount",
            Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS_ATTEMPT_COUNT)),
        ),
        omitted(
            "EnvoyDebugHeaders",
            "envoyDebugHeaders",
            Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS_ENVOY_DEBUG_HEADERS)),
        ),
        omitted(
            "MetadataExchangeHeaders",
            "metadataExchangeHeaders",
            Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS_METADATA_EXCHANGE_HEADERS)),
        ),
        omitted("PreserveHttp1HeaderCase", "preserveHttp1HeaderCase", Wrapper(&Bool)),
        omitted(
            "XForwardedHost",
            "xForwardedHost",
            Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS_X_FORWARDED_HOST)),
        ),
        omitted(
            "XForwardedPort",
            "xForwardedPort",
            Pointer(&Struct(&PROXY_CONFIG_PROXY_HEADERS_X_FORWARDED_PORT)),
        ),
    ],
};

static PROXY_CONFIG_PROXY_HEADERS_ATTEMPT_COUNT: Type = Type {
    id: 182,
    name: "v1alpha1.ProxyConfig_ProxyHeaders_AttemptCount",
    fields: &[omitted("Disabled", "disabled", Wrapper(&Bool))],
};

static PROXY_CONFIG_PROXY_HEADERS_ENVOY_DEBUG_HEADERS: Type = Type {
    id: 183,
    name: "v1alpha1.ProxyConfig_ProxyHeaders_EnvoyDebugHeaders",
    fields: &[omitted("Disabled", "disabled", Wrapper(&Bool))],
};

static PROXY_CONFIG_PROXY_HEADERS_METADATA_EXCHANGE_HEADERS: Type = Type {
    id: 184,
    name: "v1alpha1.ProxyConfig_ProxyHeaders_MetadataExchangeHeaders",
    fields: &[omitted("Mode", "mode", Enum(&["UNDEFINED", "IN_MESH"]))],
};

static PROXY_CONFIG_PROXY_HEADERS_REQUEST_ID: Type = Type {
    id: 185,
    name: "v1alpha1.ProxyConfig_ProxyHeaders_RequestId",
    fields: &[omitted("Disabled", "disabled", Wrapper(&Bool))],
};

static PROXY_CONFIG_PROXY_HEADERS_SERVER: Type = Type {
    id: 186,
    name: "v1alpha1.ProxyConfig_ProxyHeaders_Server",
    fields: &[omitted("Disabled", "disabled", Wrapper(&Bool)), omitted("Value", "value", String)],
};

static PROXY_CONFIG_PROXY_HEADERS_SET_CURRENT_CLIENT_CERT_DETAILS: Type = Type {
    id: 187,
    name: "v1alpha1.ProxyConfig_ProxyHeaders_SetCurrentClientCertDetails",
    fields: &[
        omitted("Subject", "subject", Wrapper(&Bool)),
        omitted("Cert", "cert", Wrapper(&Bool)),
        omitted("Chain", "chain", Wrapper(&Bool)),
        omitted("Dns", "dns", Wrapper(&Bool)),
        omitted("Uri", "uri", Wrapper(&Bool)),
    ],
};

static PROXY_CONFIG_PROXY_HEADERS_X_FORWARDED_HOST: Type = Type {
    id: 188,
    name: "v1alpha1.ProxyConfig_ProxyHeaders_XForwardedHost",
    fields: &[omitted("Enabled", "enabled", Wrapper(&Bool))],
};

static PROXY_CONFIG_PROXY_HEADERS_X_FORWARDED_PORT: Type = Type {
    id: 189,
    name: "v1alpha1.ProxyConfig_ProxyHeaders_XForwardedPort",
    fields: &[omitted("Enabled", "enabled", Wrapper(&Bool))],
};

static PROXY_CONFIG_PROXY_STATS_MATCHER: Type = Type {
    id: 190,
    name: "v1alpha1.ProxyConfig_ProxyStatsMatcher",
    fields: &[
        omitted("InclusionPrefixes", "inclusionPrefixes", STRINGS),
        omitted("InclusionSuffixes", "inclusionSuffixes", STRINGS),
        omitted("InclusionRegexps", "inclusionRegexps", STRINGS),
    ],
};

static REMOTE_SERVICE: Type = Type {
    id: 191,
    name: "v1alpha1.RemoteService",
    fields: &[
        omitted("Address", "address", String),
        omitted("TlsSettings", "tlsSettings", Pointer(&Struct(&NETWORKING_CLIENT_TLS_SETTINGS))),
        omitted(
            "TcpKeepalive",
            "tcpKeepalive",
            Pointer(&Struct(&NETWORKING_CONNECTION_POOL_SETTINGS_TCP_SETTINGS_TCP_KEEPALIVE)),
        ),
    ],
};

static SDS: Type = Type {
    id: 192,
    name: "v1alpha1.SDS",
    fields: &[omitted("Enabled", "enabled", Bool), omitted("K8SSaJwtPath", "k8sSaJwtPath", String)],
};

static SERVICE_ENTRY_VISIBILITY: Type = Type {
    id: 193,
    name: "v1alpha1.ServiceEntryVisibility",
    fields: &[
        omitted(
            "DefaultVisibility",
            "defaultVisibility",
            Enum(&["VISIBILITY_UNSPECIFIED", "NONE", "NAMESPACE", "PUBLIC"]),
        ),
        omitted("ApplyToSidecars", "applyToSidecars", Bool),
        omitted("Policies", "policies", List(&Pointer(&Struct(&SERVICE_ENTRY_VISIBILITY_POLICY)))),
    ],
};

static SERVICE_ENTRY_VISIBILITY_MATCH_RULE: Type = Type {
    id: 194,
    name: "v1alpha1.ServiceEntryVisibility_MatchRule",
    fields: &[one_of("NamespaceSelector", "namespaceSelector", Pointer(&Struct(&LABEL_SELECTOR)))],
};

static SERVICE_ENTRY_VISIBILITY_POLICY: Type = Type {
    id: 195,
    name: "v1alpha1.ServiceEntryVisibility_Policy",
    fields: &[
        omitted(
            "Visibility",
            "visibility",
            Enum(&["VISIBILITY_UNSPECIFIED", "NONE", "NAMESPACE", "PUBLIC"]),
        ),
        omitted(
            "MatchingRules",
            "matchingRules",
            List(&Pointer(&Struct(&SERVICE_ENTRY_VISIBILITY_MATCH_RULE))),
        ),
    ],
};

static TOPOLOGY: Type = Type {
    id: 196,
    name: "v1alpha1.Topology",
    fields: &[
        omitted("NumTrustedProxies", "numTrustedProxies", Unsigned),
        omitted(
            "ForwardClientCertDetails",
            "forwardClientCertDetails",
            Enum(&[
                "UNDEFINED",
                "SANITIZE",
                "FORWARD_ONLY",
                "APPEND_FORWARD",
                "SANITIZE_SET",
                "ALWAYS_FORWARD_ONLY",
            ]),
        ),
        omitted(
            "ProxyProtocol",
            "proxyProtocol",
            Pointer(&Struct(&TOPOLOGY_PROXY_PROTOCOL_CONFIGURATION)),
        ),
    ],
};

static TOPOLOGY_PROXY_PROTOCOL_CONFIGURATION: Type =
    Type { id: 197, name: "v1alpha1.Topology_ProxyProtocolConfiguration", fields: &[] };

static TRACING: Type = Type {
    id: 198,
    name: "v1alpha1.Tracing",
    fields: &[
        one_of("Zipkin", "zipkin", Pointer(&Struct(&TRACING_ZIPKIN))),
        one_of("Lightstep", "lightstep", Pointer(&Struct(&TRACING_LIGHTSTEP))),
        one_of("Datadog", "datadog", Pointer(&Struct(&TRACING_DATADOG))),
        one_of("Stackdriver", "stackdriver", Pointer(&Struct(&TRACING_STACKDRIVER))),
        one_of("OpenCensusAgent", "openCensusAgent", Pointer(&Struct(&TRACING_OPEN_CENSUS_AGENT))),
        omitted("CustomTags", "customTags", Map(&Pointer(&Struct(&TRACING_CUSTOM_TAG)))),
        omitted("MaxPathTagLength", "maxPathTagLength", Unsigned),
        omitted("Sampling", "sampling", Float),
        omitted("TlsSettings", "tlsSettings", Pointer(&Struct(&NETWORKING_CLIENT_TLS_SETTINGS))),
        omitted("EnableIstioTags", "enableIstioTags", Wrapper(&Bool)),
    ],
};

static TRACING_CUSTOM_TAG: Type = Type {
    id: 199,
    name: "v1alpha1.Tracing_CustomTag",
    fields: &[
        one_of("Literal", "literal", Pointer(&Struct(&TRACING_LITERAL))),
        one_of("Environment", "environment", Pointer(&Struct(&TRACING_ENVIRONMENT))),
        one_of("Header", "header", Pointer(&Struct(&TRACING_REQUEST_HEADER))),
    ],
};

static TRACING_DATADOG: Type = Type {
    id: 200,
    name: "v1alpha1.Tracing_Datadog",
    fields: &[omitted("Address", "address", String)],
};

static TRACING_ENVIRONMENT: Type = Type {
    id: 201,
    name: "v1alpha1.Tracing_Environment",
    fields: &[omitted("Name", "name", String), omitted("DefaultValue", "defaultValue", String)],
};

static TRACING_LIGHTSTEP: Type = Type {
    id: 202,
    name: "v1alpha1.Tracing_Lightstep",
    fields: &[omitted("Address", "address", String), omitted("AccessToken", "accessToken", String)],
};

static TRACING_LITERAL: Type = Type {
    id: 203,
    name: "v1alpha1.Tracing_Literal",
    fields: &[omitted("Value", "value", String)],
};

static TRACING_OPEN_CENSUS_AGENT: Type = Type {
    id: 204,
    name: "v1alpha1.Tracing_OpenCensusAgent",
    fields: &[
        omitted("Address", "address", String),
        omitted(
            "Context",
            "context",
            List(&Enum(&[
                "UNSPECIFIED",
                "W3C_TRACE_CONTEXT",
                "GRPC_BIN",
                "CLOUD_TRACE_CONTEXT",
                "B3",
            ])),
        ),
    ],
};

static TRACING_REQUEST_HEADER: Type = Type {
    id: 205,
    name: "v1alpha1.Tracing_RequestHeader",
    fields: &[omitted("Name", "name", String), omitted("DefaultValue", "defaultValue", String)],
};

static TRACING_STACKDRIVER: Type = Type {
    id: 206,
    name: "v1alpha1.Tracing_Stackdriver",
    fields: &[
        omitted("Debug", "debug", Bool),
        omitted("MaxNumberOfAttributes", "maxNumberOfAttributes", Wrapper(&Int(64))),
        omitted("MaxNumberOfAnnotations", "maxNumberOfAnnotations", Wrapper(&Int(64))),
        omitted("MaxNumberOfMessageEvents", "maxNumberOfMessageEvents", Wrapper(&Int(64))),
    ],
};

static TRACING_ZIPKIN: Type = Type {
    id: 207,
    name: "v1alpha1.Tracing_Zipkin",
    fields: &[omitted("Address", "address", String)],
};

pub(crate) static ALL: [&Type; 96] = [
    &CERTIFICATE,
    &CONFIG_SOURCE,
    &LABEL_SELECTOR,
    &LABEL_SELECTOR_REQUIREMENT,
    &MESH_CONFIG,
    &MESH_CONFIG_CA,
    &MESH_CONFIG_CERTIFICATE_DATA,
    &MESH_CONFIG_DEFAULT_PROVIDERS,
    &MESH_CONFIG_DEFAULT_TRAFFIC_POLICY,
    &MESH_CONFIG_EXTENSION_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_DATADOG_TRACING_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_GRPC_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_HTTP_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_EXTERNAL_AUTHORIZATION_REQUEST_BODY,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_FILE_ACCESS_LOG_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_FILE_ACCESS_LOG_PROVIDER_LOG_FORMAT,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_HTTP_GRPC_V3_LOG_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_OPEN_TELEMETRY_LOG_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_OPEN_TELEMETRY_LOG_PROVIDER_LOG_FORMAT,
    &MESH_CONFIG_EXTENSION_PROVIDER_ENVOY_TCP_GRPC_V3_LOG_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_GRPC_SERVICE,
    &MESH_CONFIG_EXTENSION_PROVIDER_HTTP_HEADER,
    &MESH_CONFIG_EXTENSION_PROVIDER_HTTP_SERVICE,
    &MESH_CONFIG_EXTENSION_PROVIDER_LIGHTSTEP_TRACING_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_OPEN_CENSUS_AGENT_TRACING_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER_DYNATRACE_SAMPLER,
    &MESH_CONFIG_EXTENSION_PROVIDER_OPEN_TELEMETRY_TRACING_PROVIDER_DYNATRACE_SAMPLER_DYNATRACE_API,
    &MESH_CONFIG_EXTENSION_PROVIDER_PROMETHEUS_METRICS_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS,
    &MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS_DYNATRACE_RESOURCE_DETECTOR,
    &MESH_CONFIG_EXTENSION_PROVIDER_RESOURCE_DETECTORS_ENVIRONMENT_RESOURCE_DETECTOR,
    &MESH_CONFIG_EXTENSION_PROVIDER_SDS_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_SKY_WALKING_TRACING_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_STACKDRIVER_PROVIDER,
    &MESH_CONFIG_EXTENSION_PROVIDER_STACKDRIVER_PROVIDER_LOGGING,
    &MESH_CONFIG_EXTENSION_PROVIDER_ZIPKIN_TRACING_PROVIDER,
    &MESH_CONFIG_INBOUND_TRAFFIC_POLICY,
    &MESH_CONFIG_OUTBOUND_TRAFFIC_POLICY,
    &MESH_CONFIG_PROXY_PATH_NORMALIZATION,
    &MESH_CONFIG_SERVICE_SCOPE_CONFIGS,
    &MESH_CONFIG_SERVICE_SETTINGS,
    &MESH_CONFIG_SERVICE_SETTINGS_SETTINGS,
    &MESH_CONFIG_TLS_CONFIG,
    &NETWORKING_CLIENT_TLS_SETTINGS,
    &NETWORKING_CONNECTION_POOL_SETTINGS,
    &NETWORKING_CONNECTION_POOL_SETTINGS_HTTP_SETTINGS,
    &NETWORKING_CONNECTION_POOL_SETTINGS_HTTP_SETTINGS_CONNECTION_KEEPALIVE,
    &NETWORKING_CONNECTION_POOL_SETTINGS_TCP_SETTINGS,
    &NETWORKING_CONNECTION_POOL_SETTINGS_TCP_SETTINGS_TCP_KEEPALIVE,
    &NETWORKING_EXEC_HEALTH_CHECK_CONFIG,
    &NETWORKING_GRPC_HEALTH_CHECK_CONFIG,
    &NETWORKING_HTTP_HEADER,
    &NETWORKING_HTTP_HEALTH_CHECK_CONFIG,
    &NETWORKING_HTTP_RETRY,
    &NETWORKING_LOCALITY_LOAD_BALANCER_SETTING,
    &NETWORKING_LOCALITY_LOAD_BALANCER_SETTING_DISTRIBUTE,
    &NETWORKING_LOCALITY_LOAD_BALANCER_SETTING_FAILOVER,
    &NETWORKING_OUTLIER_DETECTION,
    &NETWORKING_PROXY_IMAGE,
    &NETWORKING_READINESS_PROBE,
    &NETWORKING_TCP_HEALTH_CHECK_CONFIG,
    &NETWORKING_ZONE_AWARE_LOAD_BALANCER_SETTING,
    &NETWORKING_ZONE_AWARE_LOAD_BALANCER_SETTING_FAILOVER,
    &PRIVATE_KEY_PROVIDER,
    &PRIVATE_KEY_PROVIDER_CRYPTO_MB,
    &PRIVATE_KEY_PROVIDER_QAT,
    &PROXY_CONFIG,
    &PROXY_CONFIG_CONNECTION_SETTINGS,
    &PROXY_CONFIG_PROXY_HEADERS,
    &PROXY_CONFIG_PROXY_HEADERS_ATTEMPT_COUNT,
    &PROXY_CONFIG_PROXY_HEADERS_ENVOY_DEBUG_HEADERS,
    &PROXY_CONFIG_PROXY_HEADERS_METADATA_EXCHANGE_HEADERS,
    &PROXY_CONFIG_PROXY_HEADERS_REQUEST_ID,
    &PROXY_CONFIG_PROXY_HEADERS_SERVER,
    &PROXY_CONFIG_PROXY_HEADERS_SET_CURRENT_CLIENT_CERT_DETAILS,
    &PROXY_CONFIG_PROXY_HEADERS_X_FORWARDED_HOST,
    &PROXY_CONFIG_PROXY_HEADERS_X_FORWARDED_PORT,
    &PROXY_CONFIG_PROXY_STATS_MATCHER,
    &REMOTE_SERVICE,
    &SDS,
    &SERVICE_ENTRY_VISIBILITY,
    &SERVICE_ENTRY_VISIBILITY_MATCH_RULE,
    &SERVICE_ENTRY_VISIBILITY_POLICY,
    &TOPOLOGY,
    &TOPOLOGY_PROXY_PROTOCOL_CONFIGURATION,
    &TRACING,
    &TRACING_CUSTOM_TAG,
    &TRACING_DATADOG,
    &TRACING_ENVIRONMENT,
    &TRACING_LIGHTSTEP,
    &TRACING_LITERAL,
    &TRACING_OPEN_CENSUS_AGENT,
    &TRACING_REQUEST_HEADER,
    &TRACING_STACKDRIVER,
    &TRACING_ZIPKIN,
];
