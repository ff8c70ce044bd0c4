//! Generated bootstraps, given to the real Envoy.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

mod inputs;
mod start;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use e2e::programs::Programs;
use pilot_agent::bootstrap::{bootstrap, command_line};
use pilot_agent::config;
use pilot_agent::node::Node;

use inputs::Case;

#[test]
fn envoy_accepts_every_combination() {
    let cases = combinations();
    let failures = Mutex::new(Vec::new());
    let queue = Mutex::new(cases.iter());
    std::thread::scope(|scope| {
        // More would disturb the tests beside this one.
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().unwrap().next() else { return };
                    if let Err(error) = validate(case) {
                        failures.lock().unwrap().push(format!("{case:?}\n{error}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} failed:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
}

#[test]
fn envoy_rejects_an_invalid_override() {
    let case = Case { bootstrap_override: "admin: {address: 1}", ..Case::default() };
    let error = validate(&case).unwrap_err();
    assert!(error.contains("admin"), "{error}");
}

/// Every value of every dimension at least once, with each combination of families, log formats
/// and tracers.
fn combinations() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut more = MORE.iter().cycle();
    for addresses in
        [&["10.0.0.1"][..], &["fd00::1"], &["10.0.0.1", "fd00::1"], &["fd00::1", "10.0.0.1"]]
    {
        for json_log in [false, true] {
            for tracing in TRACING {
                // Each case has another one of the further dimensions.
                cases.push(Case { addresses, json_log, tracing, ..*more.next().unwrap() });
            }
        }
    }
    assert!(cases.len() >= MORE.len());
    cases
}

/// Runs Envoy with `--mode validate`. The error is its output.
fn validate(case: &Case) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let config = config::resolve(&case.inputs()).map_err(|error| error.to_string())?.config;
    let envoy = config.envoy.as_ref().unwrap();
    let file = folder.path().join("envoy.json");
    let value = bootstrap(&config, envoy, &Node::new(&config));
    fs::write(&file, value.to_string()).unwrap();
    write_certificates(folder.path());
    let custom = Some(case.bootstrap_override).filter(|text| !text.is_empty());
    let program = Programs::find().unwrap().envoy().unwrap();
    let output = Command::new(program)
        .arg("--config-path")
        .arg(&file)
        .args(command_line::arguments(&config, envoy))
        .args(custom.into_iter().flat_map(|text| ["--config-yaml", text]))
        .args(["--mode", "validate", "--base-id", "0", "--restart-epoch", "0"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let odd = text.lines().find(|line| {
        // Envoy has no other way to a tracer for all listeners.
        let is_tracing = line.contains("config.bootstrap.v3.Bootstrap.tracing'");
        line.contains("unknown field") || line.contains("Deprecated field") && !is_tracing
    });
    match odd {
        None if output.status.success() => Ok(()),
        None => Err(text),
        Some(warning) => Err(warning.to_owned()),
    }
}

/// Files that TLS settings of the cases name.
fn write_certificates(folder: &Path) {
    let pair = rcgen::generate_simple_self_signed(["a.b".to_owned()]).unwrap();
    fs::write(folder.join("cert.pem"), pair.cert.pem()).unwrap();
    fs::write(folder.join("key.pem"), pair.signing_key.serialize_pem()).unwrap();
}

const TRACING: [&str; 4] = [
    "",
    r#""zipkinAddress":"10.2.0.1:9411""#,
    r#""tracing":{"zipkin":{"address":"zipkin.tracing:9411"},
        "tlsSettings":{"mode":"ISTIO_MUTUAL"}}"#,
    r#""tracing":{"datadog":{"address":"$(HOST_IP):8126"}}"#,
];

/// Further dimensions.
const MORE: &[Case] = &[
    Case::DEFAULT,
    Case { role: "router", flags: "--outlierLogPath /dev/stdout --concurrency 2", ..Case::DEFAULT },
    Case { layer: r#""statsdUdpAddress":"10.2.0.2:8125""#, ..Case::DEFAULT },
    Case {
        layer: r#""envoyAccessLogService":{"address":"als.logs:1","tlsSettings":{"mode":"SIMPLE",
            "subjectAltNames":["a.b","spiffe://c/d","10.0.0.1"],"sni":"x"}}"#,
        ..Case::DEFAULT
    },
    Case {
        layer: r#""envoyMetricsService":{"address":"10.2.0.3:1","tlsSettings":{"mode":"MUTUAL",
            "clientCertificate":"cert.pem","privateKey":"key.pem","caCertificates":"cert.pem"},
            "tcpKeepalive":{"probes":3,"time":"10s","interval":"1s"}}"#,
        ..Case::DEFAULT
    },
    Case {
        layer: r#""envoyMetricsService":{"address":"[fd00::9]:1","tlsSettings":{"mode":"SIMPLE",
            "insecureSkipVerify":true}}"#,
        ..Case::DEFAULT
    },
    Case {
        layer: r#""proxyStatsMatcher":{"inclusionPrefixes":["a"],"inclusionSuffixes":["b"],
            "inclusionRegexps":["c.*"]}"#,
        ..Case::DEFAULT
    },
    Case {
        annotations: &[
            ("sidecar.istio.io/statsInclusionPrefixes", "listener.{pod_ip}_80,x"),
            ("sidecar.istio.io/statsInclusionRegexps", "a.*"),
            ("sidecar.istio.io/extraStatTags", "request.host,b-c"),
            ("sidecar.istio.io/statsHistogramBuckets", r#"{"cluster":[0.5,1,10]}"#),
            ("sidecar.istio.io/statsFlushInterval", "500ms"),
            ("sidecar.istio.io/statsEvictionInterval", "1m"),
        ],
        ..Case::DEFAULT
    },
    Case {
        layer: r#""statsCompression":false,"fileFlushInterval":"250ms","fileFlushMinSizeKb":64"#,
        ..Case::DEFAULT
    },
    Case {
        layer: r#""runtimeValues":{"a.b":"true","c":"7","d":"text",
            "overload.global_downstream_max_connections":"9"}"#,
        ..Case::DEFAULT
    },
    Case {
        layer: r#""connectionSettings":{"globalDownstreamConnectionLimit":100}"#,
        ..Case::DEFAULT
    },
    Case { labels: &[("istio-locality", "eu.eu-1.a"), ("app", "web")], ..Case::DEFAULT },
    Case {
        environment: &[("ISTIO_DELTA_XDS", "false"), ("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true")],
        ..Case::DEFAULT
    },
    Case { annotations: &[("status.sidecar.istio.io/port", "0")], ..Case::DEFAULT },
    Case {
        bootstrap_override: r#"{"admin":{"address":{"socket_address":{"port_value":15001}}},
            "static_resources":{"clusters":[{"name":"mine","connect_timeout":"2s"}]}}"#,
        ..Case::DEFAULT
    },
    Case {
        bootstrap_override: "stats_flush_interval: 9s\nnode: {metadata: {MINE: 'yes'}}\n",
        ..Case::DEFAULT
    },
];
