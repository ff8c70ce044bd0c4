//! Attributes of the proxy's spans.

use serde_json::{Value, json};

use crate::fixture::{Fixture, variable};

#[test]
fn attributes_come_from_annotations_labels_and_images() {
    let none = json!({});
    let one = |image: &str| json!([{"name": "app", "image": image}]);
    let two = json!([{"name": "app", "image": "app:1"}, {"name": "b", "image": "b:2"}]);
    let note =
        |key: &str, value: &str| json!({format!("resource.opentelemetry.io/service.{key}"): value});
    let label = json!({"app.kubernetes.io/version": "v7"});
    let id = "service.instance.id=test-ns.$(POD_NAME).app";
    for (annotations, labels, containers, expected) in [
        (none.clone(), none.clone(), one("app"), format!("service.namespace=test-ns,{id}")),
        (
            none.clone(),
            none.clone(),
            one("app:1.2"),
            format!("service.namespace=test-ns,service.version=1.2,{id}"),
        ),
        (
            none.clone(),
            none.clone(),
            one("h:5000/a/app"),
            format!("service.namespace=test-ns,{id}"),
        ),
        (
            none.clone(),
            none.clone(),
            one("h:5000/a/app:1.2"),
            format!("service.namespace=test-ns,service.version=1.2,{id}"),
        ),
        (
            none.clone(),
            none.clone(),
            one("app@sha256:0a"),
            format!("service.namespace=test-ns,service.version=sha256:0a,{id}"),
        ),
        (
            none.clone(),
            none.clone(),
            one("h:5000/app:1@sha256:0a"),
            format!("service.namespace=test-ns,service.version=1@sha256:0a,{id}"),
        ),
        (none.clone(), none.clone(), two.clone(), format!("service.namespace=test-ns,{id}")),
        (
            none.clone(),
            label.clone(),
            two,
            format!("service.namespace=test-ns,service.version=v7,{id}"),
        ),
        (
            none.clone(),
            label.clone(),
            one("app:1"),
            format!("service.namespace=test-ns,service.version=v7,{id}"),
        ),
        (
            note("version", "v9"),
            label,
            one("app:1"),
            format!("service.namespace=test-ns,service.version=v9,{id}"),
        ),
        (
            note("namespace", "shop"),
            none.clone(),
            one("app"),
            format!("service.namespace=shop,{id}"),
        ),
        (
            note("instance.id", "i7"),
            none.clone(),
            one("app"),
            "service.namespace=test-ns,service.instance.id=i7".to_owned(),
        ),
        (
            note("version", ""),
            none.clone(),
            one("app:1"),
            format!("service.namespace=test-ns,service.version=1,{id}"),
        ),
    ] {
        let providers = json!([{"name": "o", "opentelemetry": {
            "service": "s", "port": 4317, "serviceAttributeEnrichment": "OTEL_SEMANTIC_CONVENTIONS"}}]);
        let fixture = Fixture::with_mesh(json!({"extensionProviders": providers}));
        let injected = fixture.pod(&pod(&annotations, &labels, &containers));
        let found = variable(&injected, "OTEL_RESOURCE_ATTRIBUTES");
        assert_eq!(found, Some(&*expected), "{annotations} {labels} {containers}");
    }
}

#[test]
fn user_supplied_proxy_counts_as_a_container() {
    let app = json!({"name": "app", "image": "app:1"});
    let ported = json!({"name": "app", "image": "app:1", "ports": [{"containerPort": 80}]});
    let proxy = json!({"name": "istio-proxy", "image": "mine:2"});
    let automatic = json!({"name": "istio-proxy", "image": "auto"});
    let listening =
        json!({"name": "istio-proxy", "image": "auto", "ports": [{"containerPort": 81}]});
    for (containers, version, name) in [
        (json!([proxy, app]), "", "istio-proxy"),
        (json!([automatic, ported]), "", "istio-proxy"),
        (json!([listening, app]), "", "istio-proxy"),
        (json!([listening, ported]), "", "istio-proxy"),
        (json!([app, proxy]), "", "app"),
        (json!([ported, listening]), "", "app"),
        (json!([automatic]), "", "istio-proxy"),
        (json!([proxy]), "service.version=2,", "istio-proxy"),
    ] {
        for native in [true, false] {
            let providers = json!([{"name": "o", "opentelemetry": {
                "service": "s", "port": 4317, "serviceAttributeEnrichment": "OTEL_SEMANTIC_CONVENTIONS"}}]);
            let mut fixture = Fixture::with_mesh(json!({"extensionProviders": providers}));
            fixture.process.native_sidecars = native;
            // `pod` checks that reinjection changes nothing.
            let injected = fixture.pod(&pod(&json!({}), &json!({}), &containers));
            let expected = format!(
                "service.namespace=test-ns,{version}service.instance.id=test-ns.$(POD_NAME).{name}"
            );
            let found = variable(&injected, "OTEL_RESOURCE_ATTRIBUTES");
            assert_eq!(found, Some(&*expected), "{containers} {native}");
        }
    }
}

#[test]
fn only_a_provider_that_needs_them_gets_attributes() {
    for providers in [
        json!([]),
        json!([{"name": "z", "zipkin": {"service": "z", "port": 1}}]),
        json!([{"name": "o", "opentelemetry": {"service": "o", "port": 1}}]),
        json!([{"name": "o", "opentelemetry": {"serviceAttributeEnrichment": "ISTIO_CANONICAL"}}]),
    ] {
        let fixture = Fixture::with_mesh(json!({"extensionProviders": providers}));
        let pod = pod(&json!({}), &json!({}), &json!([{"name": "app", "image": "app:1"}]));
        assert_eq!(variable(&fixture.pod(&pod), "OTEL_RESOURCE_ATTRIBUTES"), None, "{providers}");
    }
}

fn pod(annotations: &Value, labels: &Value, containers: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "test-ns", "annotations": annotations, "labels": labels},
        "spec": {"containers": containers},
    })
}
