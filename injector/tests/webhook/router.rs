//! The routes with another function in place of injection: its input, and the handling of its
//! errors.

#![expect(clippy::unnecessary_wraps, reason = "the form of the functions is given")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use injector::inject::{InjectError, Injection, InjectionOutcome, Target};
use injector::json::change::Change;
use injector::settings::{Process, Settings};
use injector::sources::Texts;
use injector::webhook::admission::handler::{Webhook, router};
use injector::webhook::admission::verdict::{Admission, Inject};
use injector::webhook::cluster_state::ClusterWatch;
use injector::webhook::reload::Configuration;
use injector::webhook::server::body_memory::BodyBudget;
use injector::webhook::server::turns::Turns;
use injector::webhook::telemetry::metrics::Metrics;
use reason::{Reason, words};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::client::review;

#[tokio::test]
async fn path_environment_reaches_the_injection() {
    let router = webhook(says_what_it_is_told, 1);
    let table = [
        ("/inject", "shop []"),
        ("/inject/", "shop []"),
        ("/inject/cluster", "shop []"),
        (
            "/inject/net/n1/cluster/c1?timeout=10s",
            r#"shop [("ISTIO_META_CLUSTER_ID", "c1"), ("ISTIO_META_NETWORK", "n1")]"#,
        ),
        ("/inject/url/a--slash--b/", r#"shop [("URL", "a/b")]"#),
        ("/inject/:ENV:net=a/b", r#"shop [("ISTIO_META_NETWORK", "a/b")]"#),
        ("/inject/net/n%2Bm", r#"shop [("ISTIO_META_NETWORK", "n+m")]"#),
    ];
    for (path, expected) in table {
        let (status, response) = ask(&router, path).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert_eq!(response["warnings"], json!([format!("{expected} (windows)")]), "{path}");
    }
}

#[tokio::test]
async fn panic_fails_only_one_call() {
    let webhook = configured(panics_in_one_namespace, 1);
    let metrics = Arc::clone(&webhook.metrics);
    let router = router(webhook);
    let (status, _) = ask_in(&router, "/inject", "panic").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    // The only review slot was released.
    let (status, response) = ask(&router, "/inject").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(response["allowed"], true);
    let page = metrics.encode(None);
    for line in [
        "sidecar_injector_panics_total 1",
        "sidecar_injection_requests_total 2",
        "sidecar_injection_failure_total 1",
        "sidecar_injection_total{result=\"failed\",reason=\"panic\"} 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line} in:\n{page}");
    }
}

#[tokio::test]
async fn failure_is_answered_and_counted() {
    let router = webhook(fails, 1);
    let (status, response) = ask(&router, "/inject").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u"), &json!(false)));
    assert_eq!(response["status"], json!({"code": 400, "message": "pod: it has no containers"}));
}

#[tokio::test]
async fn empty_patch_is_omitted_and_warnings_stay() {
    let router = webhook(changes_nothing, 1);
    let (_, response) = ask(&router, "/inject").await;
    let expected =
        json!({"uid": "u", "allowed": true, "warnings": ["beware (probe_port_unknown)"]});
    assert_eq!(response, expected);
}

#[tokio::test]
async fn call_waits_for_a_slot_until_its_deadline() {
    let router = webhook(says_what_it_is_told, 0);
    let (status, _) = ask(&router, "/inject?timeout=100ms").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn call_without_configuration_fails() {
    let router = router(unconfigured(says_what_it_is_told, 1));
    let (status, _) = ask(&router, "/inject").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

fn says_what_it_is_told(
    _: &Settings,
    Target { namespace, path_env, .. }: Target<'_>,
) -> Result<InjectionOutcome, InjectError> {
    let message = format!("{namespace} {path_env:?}");
    Ok(InjectionOutcome::Skipped {
        reason: Reason::new(words::WINDOWS, message),
        warnings: Vec::new(),
    })
}

fn panics_in_one_namespace(
    _: &Settings,
    Target { namespace, .. }: Target<'_>,
) -> Result<InjectionOutcome, InjectError> {
    assert_ne!(namespace, "panic");
    let reason = Reason::new(words::IGNORED_NAMESPACE, "nothing happened");
    Ok(InjectionOutcome::Skipped { reason, warnings: Vec::new() })
}

fn fails(_: &Settings, _: Target<'_>) -> Result<InjectionOutcome, InjectError> {
    Err(InjectError::Pod("it has no containers".to_owned()))
}

fn changes_nothing(_: &Settings, target: Target<'_>) -> Result<InjectionOutcome, InjectError> {
    Ok(InjectionOutcome::Injected(Box::new(Injection {
        pod: target.pod,
        templates: Vec::new(),
        change: Change::Kept,
        warnings: vec![Reason::new(words::PROBE_PORT_UNKNOWN, "beware")],
    })))
}

fn webhook(inject: Inject, places: usize) -> Router {
    router(configured(inject, places))
}

fn configured(inject: Inject, places: usize) -> Webhook {
    let webhook = unconfigured(inject, places);
    webhook.configuration.offer(&Texts::default()).unwrap();
    webhook
}

fn unconfigured(inject: Inject, places: usize) -> Webhook {
    let metrics = Arc::new(Metrics::new());
    Webhook {
        configuration: Arc::new(Configuration::new(Process::default(), Arc::clone(&metrics))),
        cluster_watch: ClusterWatch::default(),
        admission: Admission::new(inject),
        metrics,
        turns: Turns::new(places),
        body_budget: BodyBudget::new(1024).unwrap(),
        body_limit: 1024,
        time_limit: Duration::from_secs(9),
    }
}

async fn ask(router: &Router, path: &str) -> (StatusCode, Value) {
    ask_in(router, path, "shop").await
}

async fn ask_in(router: &Router, path: &str, namespace: &str) -> (StatusCode, Value) {
    let body = review(&json!({"uid": "u", "namespace": namespace, "object": {}})).to_string();
    let request = Request::post(path).header("Content-Type", "application/json");
    let request = request.body(Body::from(body)).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
    (status, review["response"].take())
}
