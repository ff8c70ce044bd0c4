//! Every answer of the webhook's contract, over one connection if it stays open.

use serde_json::json;

use crate::client::{JSON, patched, plain_get, review};
use crate::program::Program;

#[test]
fn invalid_calls_are_rejected() {
    let program = Program::start(&["--max-review-bytes", "2000"]);
    let pod = review(&json!({"uid": "u", "object": {"spec": {}}})).to_string();
    let text = "Content-Type: text/plain\r\n";
    let charset = "content-type: Application/JSON; charset=utf-8\r\n";
    let old = pod.replace("k8s.io/v1", "k8s.io/v1alpha1");
    let twice = format!("{pod}{pod}");
    let large = "x".repeat(2001);
    let table: [(&str, &str, &str, &str, u16, &str); 16] = [
        ("POST", "/inject", JSON, &pod, 200, ""),
        ("POST", "/inject/", JSON, &pod, 200, ""),
        ("POST", "/inject/net/n1?timeout=10s", charset, &pod, 200, ""),
        ("GET", "/inject", "", "", 405, "want POST"),
        ("PUT", "/inject/net/n1", JSON, &pod, 405, "want POST"),
        ("POST", "/inject", "", &pod, 415, "want application/json"),
        ("POST", "/inject", text, &pod, 415, "want application/json"),
        ("POST", "/inject", JSON, "", 400, "no body found"),
        ("POST", "/inject", JSON, "{", 400, "not an AdmissionReview"),
        ("POST", "/inject", JSON, &twice, 400, "trailing characters"),
        ("POST", "/inject", JSON, &old, 400, "want admission.k8s.io/v1"),
        ("POST", "/inject/net/%zz", JSON, &pod, 400, "percent-encoding"),
        ("POST", "/inject", JSON, &large, 413, "larger than 2000 bytes"),
        ("POST", "/injectx", JSON, &pod, 404, ""),
        ("POST", "/", JSON, &pod, 404, ""),
        ("POST", "/inject/a//b?timeout=10s", JSON, &pod, 307, ""),
    ];
    for (method, path, headers, body, status, message) in table {
        let answer = program.connect().ask(method, path, headers, body.as_bytes());
        let said = &answer.body;
        assert_eq!(answer.status, status, "{method} {path} {headers}{said}");
        assert!(said.contains(message), "{method} {path} {headers}{said}");
        match status {
            307 => assert_eq!(answer.header("location"), Some("/inject/a/b?timeout=10s")),
            405 => assert_eq!(answer.header("allow"), Some("POST")),
            _ => {}
        }
    }
}

#[test]
fn large_body_without_content_length_is_rejected() {
    let program = Program::start(&["--max-review-bytes", "2000"]);
    let mut client = program.connect();
    client.send(b"POST /inject HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n");
    client.send(format!("{JSON}\r\n7d1\r\n{}", "x".repeat(2001)).as_bytes());
    assert_eq!(client.answer().status, 413);
}

#[test]
fn large_content_length_is_rejected_before_the_body() {
    let program = Program::start(&[]);
    let mut client = program.connect();
    let head = "POST /inject HTTP/1.1\r\nHost: t\r\nContent-Length: 6291457\r\n";
    client.send(format!("{head}{JSON}\r\n").as_bytes());
    assert_eq!(client.answer().status, 413);
}

#[test]
fn sending_client_receives_the_error() {
    let program = Program::start(&[]);
    let body = vec![b' '; 6 * 1024 * 1024 + 1];
    let answer = program.connect().ask("POST", "/inject", JSON, &body);
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
}

#[test]
fn one_connection_serves_many_reviews() {
    let program = Program::start(&[]);
    let mut client = program.connect();
    let pod = |name: &str, opt_out: bool| {
        json!({
            "metadata": {"name": name, "labels": {"sidecar.istio.io/inject": (!opt_out).to_string()}},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
        })
    };

    let response = client.review("/inject", &json!({"uid": "u1", "object": pod("a", true)}));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u1"), &json!(true)));
    assert_eq!((&response["patch"], &response["patchType"]), (&json!(null), &json!(null)));
    assert_eq!(response["warnings"].as_array().unwrap().len(), 1, "{response}");

    let update = json!({"uid": "u2", "operation": "UPDATE", "object": pod("a", false)});
    let response = client.review("/inject", &update);
    assert_eq!(response["allowed"], true);
    assert!(response["warnings"][0].as_str().unwrap().contains("(not_a_create)"));

    let delete = json!({"uid": "u3", "operation": "DELETE", "object": null});
    assert_eq!(client.review("/inject", &delete)["allowed"], true);

    let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let response = client.review("/inject", &json!({"uid": "u4", "kind": kind, "object": {}}));
    assert_eq!(response["allowed"], true);
    assert!(response["warnings"][0].as_str().unwrap().contains("(not_a_pod)"));

    let response = client.review("/inject", &json!({"uid": "u5", "object": "pod"}));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u5"), &json!(false)));
    assert_eq!(response["status"]["code"], 400);

    let response = client.review("/inject", &json!(null));
    assert_eq!((&response["uid"], &response["allowed"]), (&json!(""), &json!(false)));
    assert_eq!(response["status"]["code"], 400);
    assert_eq!(response["status"]["message"], "the AdmissionReview has no request");
}

#[test]
fn pod_is_injected() {
    let program = Program::start(&[]);
    let pod = json!({"metadata": {"generateName": "web-"}, "spec": {
        "containers": [{"name": "app", "image": "app"}], "ofTheFuture": [1]}});
    let request = json!({"uid": "u", "namespace": "shop", "dryRun": true, "object": pod});
    let response = program.connect().review("/inject/net/n1", &request);
    assert_eq!(response["allowed"], true, "{response}");
    assert_eq!(response["patchType"], "JSONPatch", "{response}");
    let patched = patched(&pod, &response);
    assert_eq!(patched["spec"]["ofTheFuture"], json!([1]));
    assert_eq!(patched["metadata"]["labels"]["topology.istio.io/network"], "n1");
    let line = program.log("admission");
    assert_eq!(line["result"], "injected", "{line}");
    assert_eq!((&line["namespace"], &line["name"]), (&json!("shop"), &json!("web-")));
    assert_eq!((&line["uid"], &line["dry_run"]), (&json!("u"), &json!(true)));
}

#[test]
fn skipped_pod_gets_suggestions() {
    let program = Program::start(&[]);
    let pod = json!({"metadata": {"annotations": {"sidecar.istio.io/inject": "false"},
        "labels": {"sidecar.istio.io/injct": "true"}}, "spec": {}});
    let response = program.connect().review("/inject", &json!({"uid": "u", "object": pod}));
    assert_eq!((&response["allowed"], &response["patch"]), (&json!(true), &json!(null)));
    let warnings = response["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{response}");
    assert!(warnings[0].as_str().unwrap().contains("(opted_out_by_annotation)"), "{response}");
    assert!(warnings[1].as_str().unwrap().contains("did you mean sidecar.istio.io/inject?"));
}

/// An API server sends the first version in the list of the webhook configuration.
#[test]
fn v1beta1_review_is_answered_in_v1beta1() {
    let program = Program::start(&[]);
    let pod = json!({"spec": {"containers": [{"name": "app", "image": "app"}]}});
    let review = review(&json!({"uid": "u", "object": pod})).to_string();
    let body = review.replace("k8s.io/v1", "k8s.io/v1beta1");
    let answer = program.connect().ask("POST", "/inject", JSON, body.as_bytes());
    let answer: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1beta1", "{answer}");
    assert_eq!(answer["response"]["patchType"], "JSONPatch", "{answer}");
}

#[test]
fn invalid_annotation_is_named() {
    let program = Program::start(&[]);
    let key = "traffic.sidecar.istio.io/includeInboundPorts";
    let pod = json!({"metadata": {"name": "web", "annotations": {key: "eighty"}},
        "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let response = program.connect().review("/inject", &json!({"uid": "u", "object": pod}));
    assert_eq!(response["allowed"], false, "{response}");
    assert_eq!(response["status"]["code"], 400, "{response}");
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains(key) && message.contains("eighty"), "{message}");
}

#[test]
fn error_names_the_user_supplied_proxy() {
    let program = Program::start(&[]);
    let own = json!({"name": "istio-proxy", "env": [{"value": "nameless"}]});
    let pod = json!({"metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app", "image": "app"}, own]}});
    let response = program.connect().review("/inject", &json!({"uid": "u", "object": pod}));
    assert_eq!(response["status"]["code"], 400, "{response}");
}

#[test]
fn probe_port_answers_only_probes() {
    let program = Program::start(&["--probeAddr", "127.0.0.1:0"]);
    for (path, status) in [
        ("/healthz/ready", 200),
        ("/ready", 200),
        ("/healthz/live", 200),
        ("/metrics", 404),
        ("/logging", 404),
        ("/inject", 404),
    ] {
        assert_eq!(plain_get(program.probe.unwrap(), path).status, status, "{path}");
    }
}

#[test]
fn admin_port_serves_version_metrics_and_health() {
    let program = Program::start(&[]);
    for path in ["/healthz/ready", "/ready", "/healthz/live"] {
        assert_eq!(plain_get(program.admin, path).status, 200, "{path}");
    }
    assert_eq!(plain_get(program.admin, "/inject").status, 404);
    let mut client = program.connect();
    for (path, status) in [("/ready", 200), ("/healthz/ready", 200), ("/metrics", 404)] {
        assert_eq!(client.ask("GET", path, "", b"").status, status, "{path}");
    }
    client.ask("POST", "/inject", JSON, b"{");
    client.review("/inject", &json!({"uid": "u", "operation": "UPDATE", "object": {}}));
    client.review("/inject", &json!(null));
    assert!((program.metric("sidecar_injection_requests_total") - 3.0).abs() < f64::EPSILON);
    let page = plain_get(program.admin, "/metrics");
    assert!(page.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let is_kept = |line: &&str| {
        !line.starts_with("# EOF")
            && !["_sum", "_bucket", "not_after"].iter().any(|part| line.contains(part))
    };
    let mut lines: Vec<_> = page.body.lines().filter(is_kept).collect();
    lines.sort_unstable();
    insta::assert_snapshot!(lines.join("\n"));
}
