//! Costs of one review, and the delay that it may cause to others.

use std::fmt::Write as _;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, JSON, review};
use crate::program::Program;

#[test]
fn annotations_above_the_limit_are_rejected_unparsed() {
    let program = Program::start(&[]);
    for (key, value) in attacks(2 << 20) {
        let body = expensive("shop", key, &value);
        let answer = program.connect().ask("POST", "/inject", JSON, body.as_bytes()).review();
        let message = answer["status"]["message"].as_str().unwrap();
        assert!(message.contains("and Kubernetes allows 262144"), "{key}: {message}");
    }
    assert!(peak_mebibytes(&program) < 100, "{} MiB", peak_mebibytes(&program));
}

#[test]
fn annotations_cannot_exhaust_memory() {
    let program = Program::start(&["--review-timeout", "60s"]);
    let (address, ca) = program.endpoint();
    for (key, value) in &attacks(250 << 10) {
        let body = expensive("shop", key, value);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut client = Client::connect(address, &ca).unwrap();
                    client.ask("POST", "/inject", JSON, body.as_bytes());
                });
            }
        });
        let peak = peak_mebibytes(&program);
        assert!(peak < 160, "{key}: {peak} MiB");
    }
}

#[test]
fn pod_lists_cannot_exhaust_memory() {
    let program = Program::start(&["--review-timeout", "60s"]);
    let names = |count: usize| (0..count).map(|n| json!({"name": format!("n{n}")})).collect();
    let with = |field: &str, count: usize| json!({"containers": [{"name": "app"}], field: Value::Array(names(count))});
    let mounts = (0..13_000).map(|n| json!({"mountPath": format!("/{n}"), "name": "x"}));
    let proxy = |field: &str, list: Value| json!({"containers": [{"name": "istio-proxy", "image": "auto", field: list}]});
    for (what, spec, status) in [
        ("containers", with("containers", 19_000), 200),
        ("volumes", with("volumes", 19_000), 200),
        ("objects", with("unknown", 50_000), 413),
        ("numbers", json!({"unknown": vec![0; 110_000]}), 413),
        ("env", proxy("env", Value::Array(names(19_000))), 200),
        ("mounts", proxy("volumeMounts", mounts.collect()), 200),
    ] {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        let body = review(&json!({"uid": "u", "namespace": "shop", "object": pod})).to_string();
        let answer = program.connect().ask("POST", "/inject", JSON, body.as_bytes());
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        let peak = peak_mebibytes(&program);
        assert!(peak < 160, "{what}: {peak} MiB");
    }
}

#[test]
fn json_in_variables_stays_text_in_reinjection() {
    let program = Program::start(&["--review-timeout", "60s"]);
    for item in ["0", "{}", "[]", r#"{"name":"a"}"#] {
        let list = format!("[{}]", vec![item; (1400 << 10) / (item.len() + 1)].join(","));
        let env =
            ["ISTIO_META_POD_PORTS", "ISTIO_KUBE_APP_PROBERS", "ISTIO_PROMETHEUS_ANNOTATIONS"]
                .map(|name| json!({"name": name, "value": list}));
        let proxy = json!({"name": "istio-proxy", "image": "auto", "env": env});
        let status = json!({"containers": ["istio-proxy"]}).to_string();
        let annotations =
            json!({"sidecar.istio.io/status": status, "prometheus.io/scrape": "true"});
        let pod = json!({
            "metadata": {"annotations": annotations},
            "spec": {"containers": [{"name": "app"}, proxy]},
        });
        let body = review(&json!({"uid": "u", "namespace": "shop", "object": pod})).to_string();
        program.connect().ask("POST", "/inject", JSON, body.as_bytes());
        let peak = peak_mebibytes(&program);
        assert!(peak < 130, "{item}: {peak} MiB");
    }
}

#[test]
fn expensive_pods_of_a_namespace_delay_no_other() {
    let greedy = expensive("greedy", "proxy.istio.io/config", &list(20 << 10));
    let honest = format!("# {}", "x".repeat(70 << 10));
    let honest = expensive_as("honest", "shop", "proxy.istio.io/config", &honest);
    delays_no_other(8, &greedy, &honest);
}

#[test]
fn small_pods_of_a_namespace_delay_no_other() {
    let greedy = expensive("greedy", "proxy.istio.io/config", &list(15 << 10));
    let honest = expensive_as("honest", "shop", "proxy.istio.io/config", "concurrency: 2");
    delays_no_other(24, &greedy, &honest);
}

/// Sends reviews of one namespace, an honest one of another namespace, and the smallest one, so
/// that all of them arrive at once, and reads from the log when the last two were answered.
fn delays_no_other(others: usize, greedy: &str, honest: &str) {
    let program = Program::start(&["--review-timeout", "1h", "--max-reviews", "2"]);
    let smallest =
        json!({"uid": "smallest", "namespace": "shop", "object": {"spec": {"containers": []}}});
    let smallest = review(&smallest).to_string();
    let bodies: Vec<_> = [greedy].repeat(others).into_iter().chain([honest, &smallest]).collect();
    let mut clients: Vec<_> = bodies.iter().map(|_| program.connect()).collect();
    // A stopped program reads nothing: the order of arrival does not depend on how busy the machine
    // is.
    program.signal(Signal::STOP);
    for (client, body) in clients.iter_mut().zip(&bodies) {
        client.begin("POST", "/inject", JSON, body.as_bytes());
    }
    program.signal(Signal::CONT);
    for (index, client) in clients.iter_mut().enumerate() {
        let answer = client.answer();
        assert!(index < others || answer.status == 200, "{}", answer.body);
    }
    let order: Vec<_> = bodies.iter().map(|_| program.log("admission")).collect();
    for uid in ["honest", "smallest"] {
        let before = order.iter().take_while(|entry| entry["uid"] != uid).count();
        assert!(before <= others * 2 / 3, "{before} of {others} were answered before {uid}");
    }
}

#[test]
fn number_of_warnings_is_limited() {
    let program = Program::start(&[]);
    let mut config = "proxyMetadata:\n".to_owned();
    for n in 0..2000 {
        let _ = writeln!(config, "  A{n}: 1");
    }
    let body = expensive("shop", "proxy.istio.io/config", &config);
    let answer = program.connect().ask("POST", "/inject", JSON, body.as_bytes()).review();
    let warnings = answer["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 51);
    assert_eq!(warnings[50], "1950 more warnings are omitted");
}

/// Returns values of parsed annotations, each of about this number of bytes.
fn attacks(bytes: usize) -> Vec<(&'static str, String)> {
    let items = |item: &dyn Fn(usize) -> String| {
        let mut list = String::with_capacity(bytes);
        for n in 0.. {
            if list.len() >= bytes {
                break;
            }
            list += if list.is_empty() { "" } else { "," };
            list += &item(n);
        }
        list
    };
    let overrides = |field: &str, item: &dyn Fn(usize) -> String| {
        format!(r#"{{"containers":[{{"name":"istio-proxy","{field}":[{}]}}]}}"#, items(item))
    };
    vec![
        ("proxy.istio.io/config", format!("proxyMetadata: {{{}}}", items(&|n| format!("A{n}: 1")))),
        ("proxy.istio.io/config", {
            let (members, uses) =
                (items(&|n| format!("a{n}: 1")), items(&|_| "{<<: *x}".to_owned()));
            format!(
                "x: &x {{{}}}\ny: [{}]",
                &members[..members.len() / 2],
                &uses[..uses.len() / 2 / 9 * 9 - 1]
            )
        }),
        (
            "proxy.istio.io/overrides",
            overrides("volumeMounts", &|n| format!(r#"{{"mountPath":"/{n}"}}"#)),
        ),
        (
            "proxy.istio.io/overrides",
            overrides("ports", &|n| format!(r#"{{"containerPort":{n}}}"#)),
        ),
        ("proxy.istio.io/overrides", overrides("env", &|n| format!(r#"{{"name":"a{n}"}}"#))),
        ("prometheus.istio.io/scrape-targets", items(&|_| "80:/m".to_owned())),
    ]
}

/// Returns a flow sequence, the most expensive text of its length for the YAML parser.
fn list(bytes: usize) -> String {
    format!("x: [{}]", vec!["a"; bytes / 2].join(","))
}

/// Returns the review of a pod with one annotation.
fn expensive(namespace: &str, key: &str, value: &str) -> String {
    expensive_as("u", namespace, key, value)
}

/// As [`expensive`], with a uid.
fn expensive_as(uid: &str, namespace: &str, key: &str, value: &str) -> String {
    let annotations = json!({key: value, "prometheus.io/scrape": "true"});
    let pod = json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "app"}]}});
    review(&json!({"uid": uid, "namespace": namespace, "object": pod})).to_string()
}

/// Returns the peak memory of the program.
fn peak_mebibytes(program: &Program) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
}
