//! Tables of the resolved configuration.

use std::ffi::OsString;
use std::time::Duration;

use super::*;
use crate::arguments::{Arguments, Command};
use crate::downward_api;
use crate::environment::Environment;

/// Inputs of a test. Pod, namespace and address are set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Case<'a> {
    pub(crate) role: &'a str,
    pub(crate) flags: &'a str,
    pub(crate) environment: &'a [(&'a str, &'a str)],
    pub(crate) labels: &'a str,
    pub(crate) annotations: &'a str,
    pub(crate) mesh: Option<&'a str>,
    pub(crate) resolv_conf: &'a str,
    pub(crate) interfaces: &'a [&'a str],
}

impl Case<'_> {
    pub(crate) fn inputs(&self) -> Inputs {
        let line = format!("pilot-agent proxy {} {}", self.role, self.flags);
        let words = line.split_whitespace().map(OsString::from);
        let (arguments, _) = Arguments::parse_lenient(words).unwrap();
        let Command::Proxy(proxy) = arguments.command else { panic!("{line}") };
        let always = [
            ("POD_NAME", "web"),
            ("POD_NAMESPACE", "shop"),
            ("INSTANCE_IP", "10.0.0.1"),
            ("SERVICE_ACCOUNT", "web-account"),
        ];
        let variables = always.iter().chain(self.environment);
        let environment =
            Environment::new(variables.map(|(name, value)| (name.into(), value.into())));
        let files = Files {
            mesh: self.mesh.map(str::to_owned),
            labels: downward_api::parse(self.labels).unwrap(),
            annotations: downward_api::parse(self.annotations).unwrap(),
            resolv_conf: self.resolv_conf.to_owned(),
            interface_addresses: self.interfaces.iter().map(|ip| ip.parse().unwrap()).collect(),
        };
        Inputs { arguments: *proxy, json_log: arguments.log.as_json, environment, files }
    }

    fn error(&self) -> String {
        resolve(&self.inputs()).unwrap_err().to_string()
    }
}

pub(crate) fn resolved(case: &Case<'_>) -> Resolved {
    resolve(&case.inputs()).unwrap()
}

fn with(environment: &[(&str, &str)]) -> Config {
    resolved(&Case { environment, ..Case::default() }).config
}

#[test]
fn defaults_are_those_of_istio() {
    let config = with(&[]);
    let envoy = config.envoy.unwrap();
    assert_eq!(envoy.binary, PathBuf::from("/usr/local/bin/envoy"));
    assert_eq!(
        (envoy.admin_port, envoy.readiness_port, envoy.prometheus_port),
        (15000, 15021, 15090)
    );
    assert_eq!((envoy.drain_time, envoy.concurrency), (Duration::from_secs(45), None));
    assert!(envoy.hot_restart && envoy.parent_shutdown_time > envoy.drain_time);
    assert_eq!(config.pod.node_id, "sidecar~10.0.0.1~web.shop~shop.svc.cluster.local");
    assert_eq!(
        (config.pod.trust_domain.as_str(), &*config.pod.cluster_id),
        ("cluster.local", "Kubernetes")
    );
    assert_eq!(config.discovery.address, "istiod.istio-system.svc:15012");
    assert_eq!(
        config.discovery.root,
        RootSource::File("var/run/secrets/istio/root-cert.pem".into())
    );
    assert!(config.discovery.send_token && config.discovery.delta && !config.discovery.plaintext);
    assert_eq!(config.certificates.ca_address, "istiod.istio-system.svc:15012");
    assert_eq!(config.certificates.key, KeyAlgorithm::EcdsaP256);
    assert_eq!(config.status.unwrap().port, 15020);
    assert!(config.dns.is_none() && config.grpc_bootstrap.is_none());
    assert_eq!(config.drain.duration, Duration::from_secs(5));
    assert_eq!(config.paths.configuration, PathBuf::from("./etc/istio/proxy"));
}

#[test]
fn layers_override_each_other_in_order() {
    let mesh = "defaultConfig: {concurrency: 1, drainDuration: 11s, statusPort: 1, \
                discoveryAddress: 'm:1', meshId: m}";
    let flags = "--drainDuration 22s --discoveryAddress f:2";
    let environment = [("PROXY_CONFIG", r#"{"statusPort":3,"discoveryAddress":"e:3"}"#)];
    let annotations = concat!(
        "proxy.istio.io/config=\"statusPort: 4\\ndiscoveryAddress: a:4\\nmeshId: ''\\n\"\n",
        "sidecar.istio.io/discoveryAddress=\"b:5\"\n",
        "status.sidecar.istio.io/port=\"6\"\n",
    );
    let all =
        Case { mesh: Some(mesh), flags, environment: &environment, annotations, ..Case::default() };
    let values = |case: &Case<'_>| {
        let config = resolved(case).config;
        let drain = config.envoy.unwrap().drain_time.as_secs();
        (drain, config.status.map(|status| status.port), config.discovery.address)
    };
    assert_eq!(values(&all), (22, Some(6), "b:5".to_owned()));
    let (key, _) = annotations.split_once('\n').unwrap();
    assert_eq!(values(&Case { annotations: key, ..all }), (22, Some(4), "a:4".to_owned()));
    assert_eq!(values(&Case { annotations: "", ..all }), (22, Some(3), "e:3".to_owned()));
    let mesh_alone = Case { mesh: Some(mesh), ..Case::default() };
    assert_eq!(values(&mesh_alone), (11, Some(1), "m:1".to_owned()));
    // A zero in the annotation does not override.
    assert_eq!(resolved(&all).config.proxy_config.text_at("meshId"), "m");
}

#[test]
fn concurrency_comes_from_layer_limit_and_flag() {
    for (layer, limit, flag, expected) in [
        ("", "", "", None),
        ("", "", "--concurrency 3", Some(3)),
        ("", "2", "--concurrency 3", Some(2)),
        ("concurrency: 4", "2", "--concurrency 3", Some(4)),
        ("concurrency: 0", "2", "--concurrency 3", None),
        ("", "", "--concurrency 0", None),
    ] {
        let environment = [("PROXY_CONFIG", layer), ("ISTIO_CPU_LIMIT", limit)];
        let case = Case { flags: flag, environment: &environment, ..Case::default() };
        assert_eq!(
            resolved(&case).config.envoy.unwrap().concurrency,
            expected,
            "{layer} {limit} {flag}"
        );
    }
}

#[test]
fn status_port_zero_disables_the_status_server() {
    let annotations = "status.sidecar.istio.io/port=\"0\"";
    assert!(resolved(&Case { annotations, ..Case::default() }).config.status.is_none());
}

#[test]
fn missing_variable_is_named_with_its_field() {
    let error = Case { environment: &[("POD_NAME", "")], ..Case::default() }.error();
    assert!(
        error.starts_with("POD_NAME is not set; hint: ") && error.contains("metadata.name"),
        "{error}"
    );
    let flags = "--id web.shop --ip 10.0.0.9";
    let environment = [("POD_NAME", ""), ("POD_NAMESPACE", ""), ("INSTANCE_IP", "")];
    let config = resolved(&Case { flags, environment: &environment, ..Case::default() }).config;
    assert_eq!(config.pod.node_id, "sidecar~10.0.0.9~web.shop~shop.svc.cluster.local");
}

#[test]
fn invalid_input_names_its_source() {
    let case = Case::default();
    for (case, start) in [
        (
            Case { environment: &[("INSTANCE_IP", "ten")], ..case },
            "INSTANCE_IP has the invalid value \"ten\": ",
        ),
        (
            Case { environment: &[("PROXY_CONFIG", "statusPort: x")], ..case },
            "PROXY_CONFIG: statusPort: ",
        ),
        (Case { environment: &[("PROXY_CONFIG", "a: b: c")], ..case }, "PROXY_CONFIG: "),
        (
            Case { environment: &[("ISTIO_METAJSON_A", "[]")], ..case },
            "ISTIO_METAJSON_A has the invalid value",
        ),
        (
            Case { environment: &[("ISTIO_META_DNS_CAPTURE", "on")], ..case },
            "ISTIO_META_DNS_CAPTURE has the invalid value \"on\"",
        ),
        (
            Case { environment: &[("CA_ADDR", "https://ca:15012")], ..case },
            "CA_ADDR has the invalid value \"https://ca:15012\": expected HOST:PORT",
        ),
        (Case { environment: &[("CA_ADDR", "ca:0")], ..case }, "CA_ADDR has the invalid value"),
        (
            Case { environment: &[("PROXY_CONFIG", "discoveryAddress: https://i:15012")], ..case },
            "PROXY_CONFIG: discoveryAddress: ",
        ),
        (
            Case { environment: &[("XDS_HEADER_x a", "1")], ..case },
            "XDS_HEADER_x a: the part after the prefix",
        ),
        (
            Case { environment: &[("CA_HEADER_x-a", "secret\n")], ..case },
            "CA_HEADER_x-a: the value has characters",
        ),
        (
            Case { environment: &[("CLUSTER_ID", "a\nb")], ..case },
            "CLUSTER_ID has the invalid value \"a\\nb\"",
        ),
        (
            Case { environment: &[("ISTIO_META_CLUSTER_ID", "a\u{7}")], ..case },
            "ISTIO_META_CLUSTER_ID has the invalid value",
        ),
        (
            Case { environment: &[("TRUST_DOMAIN", "a/b")], ..case },
            "TRUST_DOMAIN has the invalid value \"a/b\"",
        ),
        (
            Case { environment: &[("ISTIOD_SAN", "a b")], ..case },
            "ISTIOD_SAN has the invalid value \"a b\"",
        ),
        (
            Case { environment: &[("DNS_PROXY_ADDR", "localhost:0")], ..case },
            "DNS_PROXY_ADDR has the invalid value",
        ),
        (
            Case { environment: &[("DNS_FORWARD_TIMEOUT", "0s")], ..case },
            "DNS_FORWARD_TIMEOUT has the invalid value",
        ),
        (
            Case { environment: &[("CA_PROVIDER", "GoogleCA")], ..case },
            "CA_PROVIDER=GoogleCA is not supported: ",
        ),
        (
            Case { environment: &[("ECC_SIGNATURE_ALGORITHM", "RSA")], ..case },
            "ECC_SIGNATURE_ALGORITHM=RSA is not supported",
        ),
        (
            Case { environment: &[("PILOT_CERT_PROVIDER", "magic")], ..case },
            "PILOT_CERT_PROVIDER has the invalid value",
        ),
        (
            Case { environment: &[("WORKLOAD_IDENTITY_SOCKET_FILE", "a/b")], ..case },
            "WORKLOAD_IDENTITY_SOCKET_FILE has the invalid",
        ),
        (
            Case { environment: &[("SECRET_GRACE_PERIOD_RATIO", "2")], ..case },
            "SECRET_GRACE_PERIOD_RATIO has the invalid value",
        ),
        (
            Case { mesh: Some("defaultConfig: {drainDuration: 0s}"), ..case },
            "mesh file ./etc/istio/config/mesh: drainDuration: ",
        ),
        (
            Case { mesh: Some("trustDomain: spiffe://north/"), ..case },
            "mesh file ./etc/istio/config/mesh: trustDomain: \"spiffe://north/\" is not a name of",
        ),
        (
            Case { environment: &[("PROXY_CONFIG", "statsdUdpAddress: foo:8125")], ..case },
            "PROXY_CONFIG: statsdUdpAddress: \"foo:8125\" has no IP address",
        ),
        (
            Case { environment: &[("PROXY_CONFIG", "concurrency: 65536")], ..case },
            "PROXY_CONFIG: concurrency: 65536 is not a number from 0 to 65535",
        ),
        (
            Case { environment: &[("ISTIO_CPU_LIMIT", "65536")], ..case },
            "ISTIO_CPU_LIMIT has the invalid value",
        ),
        (Case { flags: "--parentShutdownDuration 1s", ..case }, "--parentShutdownDuration: "),
        (
            Case { annotations: "proxy.istio.io/config=\"drainDuration: 0s\"", ..case },
            "annotation proxy.istio.io/config: drainDuration: ",
        ),
        (
            Case { annotations: "status.sidecar.istio.io/port=\"x\"", ..case },
            "annotation status.sidecar.istio.io/port has the invalid value \"x\": expected a port",
        ),
    ] {
        let error = case.error();
        assert!(error.starts_with(start), "{error}\n{start}");
    }
}

#[test]
fn listeners_have_different_ports() {
    let capture = ("ISTIO_META_DNS_CAPTURE", "true");
    let case = Case::default();
    for (case, start) in [
        (
            Case { environment: &[("PROXY_CONFIG", "statusPort: 15000")], ..case },
            "proxyAdminPort and statusPort both have port 15000; hint: ",
        ),
        (
            Case { flags: "--proxyAdminPort 15021", ..case },
            "--proxyAdminPort and ENVOY_STATUS_PORT both have port 15021",
        ),
        (
            Case { environment: &[("ENVOY_PROMETHEUS_PORT", "15021")], ..case },
            "ENVOY_STATUS_PORT and ENVOY_PROMETHEUS_PORT both",
        ),
        (
            Case { annotations: "status.sidecar.istio.io/port=\"15001\"", ..case },
            "the listener of captured outbound connections and annotation \
             status.sidecar.istio.io/port both",
        ),
        (
            Case { environment: &[("DNS_PROXY_ADDR", "localhost:15020"), capture], ..case },
            "statusPort and DNS_PROXY_ADDR both have port 15020",
        ),
        (
            Case { environment: &[("ENVOY_STATUS_PORT", "15004")], ..case },
            "the debug interface of the control plane and ENVOY_STATUS_PORT both",
        ),
        (
            Case { mesh: Some("proxyInboundListenPort: 15020"), ..case },
            "the listener of captured inbound connections and statusPort both have port 15020",
        ),
    ] {
        let error = case.error();
        assert!(error.starts_with(start), "{error}\n{start}");
    }
    let mesh = Some("proxyInboundListenPort: 15106\ndefaultConfig: {statusPort: 15006}");
    resolved(&Case { mesh, ..case });
    // A gateway captures nothing, and nothing listens for Envoy without Envoy.
    let environment = [("PROXY_CONFIG", "statusPort: 15006")];
    resolved(&Case { role: "router", environment: &environment, ..case });
    let environment = [("PROXY_CONFIG", "statusPort: 15021"), ("DISABLE_ENVOY", "true")];
    resolved(&Case { environment: &environment, ..case });
}

#[test]
fn invalid_flags_are_usage_errors() {
    for (flags, environment, usage) in [
        ("--ip 10.0.0.9 --parentShutdownDuration 1s", ("INSTANCE_IP", ""), true),
        ("--ip 0.0.0.0", ("INSTANCE_IP", ""), true),
        ("--proxyAdminPort 15021", ("ENVOY_STATUS_PORT", "15021"), true),
        ("", ("ENVOY_STATUS_PORT", "15000"), false),
    ] {
        let case = Case { flags, environment: &[environment], ..Case::default() };
        assert_eq!(resolve(&case.inputs()).unwrap_err().is_usage(), usage, "{flags}");
    }
}

#[test]
fn names_are_forwarded_at_once_without_envoy() {
    let capture = ("ISTIO_META_DNS_CAPTURE", "true");
    for (variable, forwards) in [
        (("DISABLE_ENVOY", "false"), false),
        (("DISABLE_ENVOY", "true"), true),
        (("DNS_PROXY_ADDR", "127.0.0.1:53"), true),
    ] {
        let dns = with(&[capture, variable]).dns.unwrap();
        assert_eq!(dns.forwards_before_table, forwards, "{variable:?}");
    }
}

#[test]
fn huge_and_foreign_values_are_not_repeated() {
    let huge = "x".repeat(100_000);
    let list = format!("statusPort: {huge}");
    for text in [&huge, &list] {
        let error = Case { environment: &[("PROXY_CONFIG", text)], ..Case::default() }.error();
        assert!(error.len() < 1000, "{error}");
    }
    let key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----\n";
    let error = Case { mesh: Some(key), ..Case::default() }.error();
    assert!(error.ends_with("expected a mapping with MeshConfig's fields"), "{error}");
}

#[test]
fn unknown_fields_cause_warnings() {
    let annotations = "proxy.istio.io/config=\"concurency: 2\"";
    let flags = "--stsPort 15463";
    let warnings = resolved(&Case { flags, annotations, ..Case::default() }).warnings;
    let expected =
        "annotation proxy.istio.io/config: concurency: unknown key; did you mean concurrency?";
    assert_eq!(warnings[0], expected);
    assert!(warnings[1].starts_with("--stsPort 15463 has no effect: "), "{warnings:?}");
}

#[test]
fn control_plane_without_tls_keeps_the_certificate_service() {
    let config = with(&[("PROXY_CONFIG", "discoveryAddress: 'istiod.istio-system.svc:15010'")]);
    assert!(config.discovery.plaintext);
    assert_eq!(config.certificates.ca_address, "istiod.istio-system.svc:15012");
}

#[test]
fn roots_follow_the_certificate_provider() {
    let file = |path: &str| RootSource::File(path.into());
    for (environment, expected) in [
        (
            &[("PILOT_CERT_PROVIDER", "kubernetes")][..],
            file("var/run/secrets/kubernetes.io/serviceaccount/ca.crt"),
        ),
        (&[("PILOT_CERT_PROVIDER", "custom")], file("etc/certs/root-cert.pem")),
        (&[("PILOT_CERT_PROVIDER", "none")], RootSource::System),
        (&[("XDS_ROOT_CA", "SYSTEM")], RootSource::System),
        (&[("XDS_ROOT_CA", "/a.pem"), ("PILOT_CERT_PROVIDER", "none")], file("/a.pem")),
    ] {
        assert_eq!(with(environment).discovery.root, expected, "{environment:?}");
    }
}

#[test]
fn headers_come_from_variables() {
    let config = with(&[("XDS_HEADER_x-a", "1"), ("CA_HEADER_x-b", "2")]);
    assert_eq!(config.discovery.headers, [("x-a".to_owned(), "1".to_owned())]);
    assert_eq!(config.certificates.headers, [("x-b".to_owned(), "2".to_owned())]);
}

#[test]
fn dns_listens_on_the_families_of_the_resolver() {
    let listen = |resolv_conf: &str, variable: &str| {
        let environment = [("ISTIO_META_DNS_CAPTURE", "true"), ("DNS_PROXY_ADDR", variable)];
        let case = Case { resolv_conf, environment: &environment, ..Case::default() };
        let listen = resolved(&case).config.dns.unwrap().listen;
        listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(listen("search a\nnameserver 10.96.0.10\n", ""), "127.0.0.1:15053");
    assert_eq!(listen("nameserver fd00::a\n", ""), "[::1]:15053");
    assert_eq!(
        listen("nameserver fe80::1%eth0\nnameserver 10.0.0.1", ""),
        "127.0.0.1:15053 [::1]:15053"
    );
    assert_eq!(listen("", "localhost:53"), "127.0.0.1:53");
    assert_eq!(listen("", "0.0.0.0:5353"), "0.0.0.0:5353");
}

#[test]
fn agent_without_envoy_writes_a_grpc_bootstrap() {
    let config = with(&[("DISABLE_ENVOY", "true"), ("OUTPUT_CERTS", "/var/lib/istio/data")]);
    assert!(config.envoy.is_none());
    assert_eq!(config.grpc_bootstrap, Some("etc/istio/proxy/grpc-bootstrap.json".into()));
    assert_eq!(config.certificates.output, Some("/var/lib/istio/data".into()));
}

#[test]
fn addresses_of_interfaces_follow_the_first() {
    let interfaces = ["10.0.0.1", "fd00::1"];
    let config = resolved(&Case { interfaces: &interfaces, ..Case::default() }).config;
    let addresses: Vec<_> = config.pod.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, interfaces);
}

#[test]
fn base_id_differs_between_agents_of_a_pod() {
    let base_id = |environment: &[(&str, &str)]| with(environment).envoy.unwrap().base_id;
    let first = base_id(&[("POD_UID", "u")]);
    assert_eq!(first, base_id(&[("POD_UID", "u")]));
    assert_ne!(first, base_id(&[("POD_UID", "v")]));
    assert_ne!(first, base_id(&[("POD_UID", "u"), ("CONTAINER_NAME", "other")]));
    assert_ne!(first, base_id(&[("POD_UID", "u"), ("PROXY_CONFIG", "proxyAdminPort: 15100")]));
}

#[test]
fn connection_limit_has_four_sources() {
    let limit = |environment: &[(&str, &str)]| with(environment).bootstrap.downstream_connections;
    let runtime = r#""runtimeValues":{"overload.global_downstream_max_connections":"7"}"#;
    let config = format!("{{{runtime}}}");
    let all =
        format!(r#"{{{runtime},"connectionSettings":{{"globalDownstreamConnectionLimit":9}}}}"#);
    let metadata = ("ISTIO_META_GLOBAL_DOWNSTREAM_MAX_CONNECTIONS", "8");
    assert_eq!(limit(&[]), 2_147_483_647);
    assert_eq!(limit(&[("PROXY_CONFIG", &config)]), 7);
    assert_eq!(limit(&[("PROXY_CONFIG", &config), metadata]), 8);
    assert_eq!(limit(&[("PROXY_CONFIG", &all), metadata]), 9);
}
