//! Warnings about inputs without effect, and layers and names in errors.

use super::tests::{Case, resolved};
use super::*;

#[test]
fn values_without_effect_cause_warnings() {
    let variable = |layer| [("PROXY_CONFIG", layer)];
    for (flags, layer, expected) in [
        ("--meshConfig /none", "", "--meshConfig /none has no effect until the file exists; "),
        ("--ip 10.0.0.9", "", "--ip: 10.0.0.9 has no effect: INSTANCE_IP is 10.0.0.1"),
        ("--id other.shop", "", "--id: other has no effect: POD_NAME is web"),
        ("--id web.other", "", "--id: other has no effect: POD_NAMESPACE is shop"),
        (
            "--binaryPath /mine",
            "binaryPath: /other",
            "--binaryPath \"/mine\" has no effect: binaryPath of PROXY_CONFIG is \"/other\"",
        ),
        (
            "--drainDuration 10s",
            "drain_duration: 60s",
            "--drainDuration \"10s\" has no effect: drainDuration of PROXY_CONFIG is \"60s\"",
        ),
        (
            "--discoveryAddress=a:1",
            "discoveryAddress: b:2",
            "--discoveryAddress \"a:1\" has no effect: discoveryAddress of PROXY_CONFIG is \"b:2\"",
        ),
        (
            "--concurrency 2",
            "concurrency: 3",
            "--concurrency 2 has no effect: concurrency of PROXY_CONFIG is 3",
        ),
        ("--domain=", "", "--domain is empty and has no effect: "),
        ("", "customConfigFile: /t", "PROXY_CONFIG: customConfigFile: it has no effect: "),
        ("", "discoveryRefreshDelay: 3s", "PROXY_CONFIG: discoveryRefreshDelay: it has no effect"),
        ("", "statNameLength: 100", "PROXY_CONFIG: statNameLength: it has no effect: "),
        ("", "sds: {enabled: true}", "PROXY_CONFIG: sds: it has no effect: "),
        ("", "statusPort: 0", "PROXY_CONFIG: statusPort: its zero has no effect, since it counts"),
        ("", "proxyBootstrapTemplatePath: /t", "PROXY_CONFIG: proxyBootstrapTemplatePath: it has"),
        (
            "",
            "tracing: {sampling: 150}",
            "PROXY_CONFIG: tracing.sampling: 150 is not a percentage from 0 to 100",
        ),
    ] {
        let case = Case { flags, environment: &variable(layer), ..Case::default() };
        let warnings = resolved(&case).warnings;
        let [warning] = &warnings[..] else { panic!("{flags} {layer}: {warnings:?}") };
        assert!(warning.starts_with(expected), "{warning}");
    }
    let case = Case {
        flags: "--ip 10.0.0.1 --id web.shop --concurrency 2 --binaryPath /a",
        environment: &variable("{tracing: {sampling: 99.5}, concurrency: 2, binaryPath: /a}"),
        ..Case::default()
    };
    assert_eq!(resolved(&case).warnings, Vec::<String>::new());
}

#[test]
fn error_of_a_field_names_its_layer() {
    let annotation = "proxy.istio.io/config=\"concurrency: 70000\"\n";
    let concurrency = "concurrency: 70000 is not a number from 0 to 65535";
    for (case, expected) in [
        (
            Case { annotations: annotation, ..Case::default() },
            format!("annotation proxy.istio.io/config: {concurrency}"),
        ),
        (
            Case { mesh: Some("defaultConfig: {concurrency: 70000}"), ..Case::default() },
            format!("mesh file ./etc/istio/config/mesh: {concurrency}"),
        ),
        (
            Case { flags: "--drainDuration 2000000h", ..Case::default() },
            "--drainDuration: 7200000000s is above Envoy's limit 4294967290s".to_owned(),
        ),
        (
            Case {
                environment: &[("PROXY_CONFIG", "drainDuration: 99999999999s")],
                ..Case::default()
            },
            "PROXY_CONFIG: drainDuration: \"99999999999s\" is not a duration of at most 2562047h"
                .to_owned(),
        ),
        (
            Case {
                environment: &[("PROXY_CONFIG", "fileFlushInterval: 2000h")],
                ..Case::default()
            },
            "PROXY_CONFIG: fileFlushInterval: 7200000s is above Envoy's limit 4294967.295s"
                .to_owned(),
        ),
        (
            Case { flags: "--parentShutdownDuration 2000000h", ..Case::default() },
            "--parentShutdownDuration: 7200000000s is above Envoy's limit 4294967290s".to_owned(),
        ),
    ] {
        let error = resolve(&case.inputs()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.is_usage(), !case.flags.is_empty(), "{error}");
    }
}

#[test]
fn name_that_no_node_id_can_have_is_rejected() {
    let id = [("POD_NAME", ""), ("POD_NAMESPACE", "")];
    for (flags, environment, expected) in [
        ("", &[("POD_NAME", "a~b")][..], "POD_NAME has the invalid value \"a~b\": expected a name"),
        ("", &[("POD_NAMESPACE", "a/b")], "POD_NAMESPACE has the invalid value "),
        ("", &[("POD_NAME", &*"a".repeat(254))], "POD_NAME has the invalid value "),
        ("", &[("SERVICE_ACCOUNT", "a b")], "SERVICE_ACCOUNT has the invalid value "),
        ("--id a~b.shop", &id, "--id: \"a~b\" is not a name of"),
        ("--domain a~b", &[], "--domain: \"a~b\" is not a name of"),
    ] {
        let case = Case { flags, environment, ..Case::default() };
        let error = resolve(&case.inputs()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn variables_without_effect_cause_warnings() {
    for (flags, environment, expected) in [
        ("", ("GRPC_XDS_BOOTSTRAP", "/a"), "GRPC_XDS_BOOTSTRAP has no effect, since Envoy runs"),
        ("", ("SECRET_GRACE_PERIOD_RATIO", "1"), "SECRET_GRACE_PERIOD_RATIO=1 counts as 0.9: "),
        (
            "--concurrency 2",
            ("ISTIO_CPU_LIMIT", "4"),
            "--concurrency 2 has no effect: ISTIO_CPU_LIMIT is 4",
        ),
    ] {
        let warnings = resolved(&Case { flags, environment: &[environment], ..Case::default() });
        let [warning] = &warnings.warnings[..] else { panic!("{:?}", warnings.warnings) };
        assert!(warning.starts_with(expected), "{warning}");
    }
}

#[test]
fn invalid_values_are_rejected_beside_overriding_ones() {
    for (environment, expected) in [
        (
            &[("PROXY_CONFIG", "concurrency: 2"), ("ISTIO_CPU_LIMIT", "many")][..],
            "ISTIO_CPU_LIMIT has the invalid value \"many\": ",
        ),
        (&[("INSTANCE_IP", "0.0.0.0")], "INSTANCE_IP has the invalid value \"0.0.0.0\": "),
        (&[("INSTANCE_IP", "224.0.0.1")], "INSTANCE_IP has the invalid value \"224.0.0.1\": "),
        (&[("INSTANCE_IP", "::")], "INSTANCE_IP has the invalid value \"::\": "),
        (
            &[("PROXY_CONFIG", r#"{"serviceCluster": "a\nb"}"#)],
            "PROXY_CONFIG: serviceCluster: \"a\\nb\" is not the name of a cluster",
        ),
    ] {
        let case = Case { environment, ..Case::default() };
        let error = resolve(&case.inputs()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn missing_service_account_causes_a_warning() {
    let case = Case { environment: &[("SERVICE_ACCOUNT", "")], ..Case::default() };
    let warnings = resolved(&case).warnings;
    assert!(warnings[0].starts_with("SERVICE_ACCOUNT is not set, so no "), "{warnings:?}");
}
