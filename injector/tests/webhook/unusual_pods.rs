//! Malformed pods, as an API server or another webhook may send them.

use serde_json::{Value, json};

use crate::client::{JSON, patched};
use crate::program::Program;

#[test]
fn pod_of_any_form_is_injected_once() {
    let program = Program::start(&[]);
    let mut client = program.connect();
    let app = || json!([{"name": "app", "image": "app"}]);
    let long = "ü~/\u{1F980}".repeat(400_000);
    for (what, pod) in [
        ("without metadata", json!({"spec": {"containers": app()}})),
        ("with null metadata", json!({"metadata": null, "spec": {"containers": app()}})),
        (
            "with null labels and lists",
            json!({"metadata": {"labels": null, "annotations": null, "name": "p"},
                "spec": {"containers": app(), "initContainers": null, "volumes": null}}),
        ),
        (
            "with a generated name and an owner of no controller",
            json!({"metadata": {"generateName": "p-", "ownerReferences": [{"kind": "Node", "name": "n"}]},
                "spec": {"containers": app()}}),
        ),
        (
            "with ephemeral and init containers",
            json!({"metadata": {"name": "p"}, "spec": {"containers": app(),
                "ephemeralContainers": [{"name": "debug", "image": "d"}],
                "initContainers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "restartPolicy": "Always"}]}}),
        ),
        ("without containers", json!({"metadata": {"name": "p"}, "spec": {"containers": []}})),
        (
            "of another namespace than the request's",
            json!({"metadata": {"name": "p", "namespace": "other"}, "spec": {"containers": app()}}),
        ),
        (
            "with names of every alphabet",
            json!({"metadata": {"name": "p", "annotations": {"ключ/~0~1": "\u{2028}\u{0}\u{F0022}"}},
                "spec": {"containers": [{"name": "ü~/", "image": "\u{1F980}"}], "будущее": {"": [null]}}}),
        ),
        (
            "of several megabytes",
            json!({"metadata": {"name": "p"}, "spec": {"containers": [
                {"name": "app", "image": "a", "env": [{"name": "A", "value": long}]}]}}),
        ),
    ] {
        let request = |object: &Value| json!({"uid": what, "namespace": "shop", "object": object});
        let response = client.review("/inject", &request(&pod));
        assert_eq!(
            (&response["uid"], &response["allowed"]),
            (&json!(what), &json!(true)),
            "{what}"
        );
        assert_eq!(response["patchType"], "JSONPatch", "{what}");
        let injected = patched(&pod, &response);
        let again = client.review("/inject", &request(&injected));
        assert_eq!((&again["allowed"], &again["patch"]), (&json!(true), &json!(null)), "{what}");
    }
}

/// As in the API server, the last of repeated keys counts.
#[test]
fn last_repeated_key_is_used() {
    let program = Program::start(&[]);
    let object = r#"{"metadata": {"name": "p"}, "spec": {"hostNetwork": false,
        "hostNetwork": true, "containers": [{"name": "app", "image": "app"}]}}"#;
    let body = format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {{"uid": "u", "object": {object}}}}}"#
    );
    let answer = program.connect().ask("POST", "/inject", JSON, body.as_bytes());
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let warning = answer["response"]["warnings"][0].as_str().unwrap();
    assert!(warning.contains("(host_network)"), "{answer}");
}
