//! Readiness, debug pages and metrics.

mod gauges;
mod mesh;
mod proxies;
mod why;

use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;

use crate::certificates::Certificates;
use crate::identity::Caller;
use crate::listener::ClientAddress;
use crate::metrics::Metrics;
use crate::publish::{Publication, Publisher, Queue};
use crate::source::Source;

/// Parameters of the pages.
#[derive(Clone, Debug, Default, Deserialize)]
struct Parameters {
    /// Proxy, `POD.NAMESPACE`. Istio's name of it is `proxyID`.
    #[serde(alias = "proxyID")]
    proxy: Option<String>,
    /// Name of a resource.
    resource: Option<String>,
}

/// Page that cannot be shown.
#[derive(Debug)]
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, format!("{}\n", self.1)).into_response()
    }
}

type Page = Result<Json<Value>, Problem>;

/// Returns the routes of readiness, for all clients, and of debug pages, for clients on loopback.
/// `certificates` are those of the listener with TLS, if there is one.
pub fn router(source: Source, certificates: Option<Certificates>) -> Router {
    let queue = source.queue.clone();
    let ready = async move || ready(&queue, certificates.as_ref());
    let pages = pages(source).layer(middleware::from_fn(loopback_only));
    Router::new().route("/ready", get(ready)).merge(pages)
}

/// Returns the routes of debug pages for authenticated callers of a namespace, that of the control
/// plane.
pub fn authenticated(source: Source, namespace: &str) -> Router {
    let namespace: Arc<str> = namespace.into();
    pages(source).layer(middleware::from_fn_with_state(namespace, of_namespace_only))
}

fn pages(source: Source) -> Router {
    let mesh = |page: fn(&Publisher) -> Value| {
        get(async move |State(source): State<Source>| -> Page {
            let page = source.queue.inspect(page).await;
            page.map(Json).ok_or_else(Problem::ending)
        })
    };
    Router::new()
        .route("/debug/registry", mesh(mesh::registry))
        .route("/debug/registryz", mesh(mesh::registry))
        .route("/debug/endpoints", mesh(mesh::endpoints))
        .route("/debug/endpointz", mesh(mesh::endpoints))
        .route("/debug/config", mesh(mesh::config))
        .route("/debug/configz", mesh(mesh::config))
        .route("/debug/connections", get(connections))
        .route("/debug/pushes", get(pushes))
        .route("/debug/syncz", get(syncz))
        .route("/debug/config_dump", get(config_dump))
        .route("/debug/why", get(why))
        .with_state(source)
}

/// Returns the route of the metrics, those of the CA among them if there is one.
pub fn metrics(metrics: &Metrics, queue: &Queue, certificates: Option<Certificates>) -> Router {
    let (metrics, queue) = (metrics.clone(), queue.clone());
    let page = async move || -> Result<Response, Problem> {
        let numbers = queue.inspect(gauges::MeshNumbers::new).await;
        numbers.ok_or_else(Problem::ending)?.set(&metrics.mesh);
        let (mut text, mut registry) = (String::new(), metrics.registry());
        if let Some(certificates) = &certificates {
            registry.register_collector(Box::new(certificates.clone()));
        }
        let encoded = prometheus_client::encoding::text::encode(&mut text, &registry);
        encoded.map_err(|error| {
            Problem(StatusCode::INTERNAL_SERVER_ERROR, format!("writing the metrics: {error}"))
        })?;
        Ok(([(CONTENT_TYPE, METRICS_TYPE)], text).into_response())
    };
    Router::new().route("/metrics", get(page))
}

impl Problem {
    fn ending() -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, "the control plane is shutting down".to_owned())
    }
}

/// Ready to serve proxies: the mesh is known, and the listener with TLS can authenticate and sign.
fn ready(queue: &Queue, certificates: Option<&Certificates>) -> Result<&'static str, Problem> {
    let missing = if !queue.is_synced() {
        "objects and settings are not listed yet; the log says which watch fails"
    } else if certificates.is_some_and(|certificates| !certificates.is_ready()) {
        "the CA or the server's certificate is not there yet; the log says what fails"
    } else {
        return Ok("ready\n");
    };
    Err(Problem(StatusCode::SERVICE_UNAVAILABLE, missing.to_owned()))
}

/// Rejects clients that are not on loopback: the pages show the whole mesh.
async fn loopback_only(request: Request, next: Next) -> Response {
    let client = request.extensions().get::<ClientAddress>();
    if client.is_some_and(|client| client.0.ip().to_canonical().is_loopback()) {
        return next.run(request).await;
    }
    let hint = "debug pages are for clients on loopback; hint: use kubectl port-forward";
    Problem(StatusCode::FORBIDDEN, hint.to_owned()).into_response()
}

/// Rejects callers of other namespaces.
async fn of_namespace_only(
    State(namespace): State<Arc<str>>,
    request: Request,
    next: Next,
) -> Response {
    let caller = request.extensions().get::<Caller>();
    if caller.is_some_and(|caller| caller.namespace == namespace) {
        return next.run(request).await;
    }
    let hint = format!("debug pages are for service accounts of the namespace {namespace}");
    Problem(StatusCode::FORBIDDEN, hint).into_response()
}

async fn connections(State(source): State<Source>) -> Json<Value> {
    Json(proxies::connections(&source))
}

async fn pushes(State(source): State<Source>) -> Json<Vec<Publication>> {
    Json(source.queue.history())
}

async fn syncz(State(source): State<Source>) -> Json<Value> {
    Json(proxies::syncz(&source).await)
}

async fn config_dump(State(source): State<Source>, Query(parameters): Query<Parameters>) -> Page {
    let proxy = parameters.proxy.ok_or_else(|| missing("proxy=POD.NAMESPACE"))?;
    proxies::config_dump(&source, &proxy).await.map(Json).ok_or_else(|| unknown(&proxy))
}

async fn why(State(source): State<Source>, Query(parameters): Query<Parameters>) -> Page {
    let proxy = parameters.proxy.ok_or_else(|| missing("proxy=POD.NAMESPACE"))?;
    let resource = parameters.resource.ok_or_else(|| missing("resource=NAME"))?;
    let view = proxies::find(&source, &proxy).ok_or_else(|| unknown(&proxy))?.proxy.clone();
    let answer = source.queue.inspect(move |publisher| why::why(publisher, &view, &resource)).await;
    answer.map(Json).ok_or_else(Problem::ending)
}

fn missing(parameter: &str) -> Problem {
    Problem(StatusCode::BAD_REQUEST, format!("missing parameter: add {parameter}"))
}

fn unknown(proxy: &str) -> Problem {
    let hint = "hint: /debug/connections lists the proxies of this replica";
    Problem(StatusCode::NOT_FOUND, format!("proxy {proxy} is not connected; {hint}"))
}

/// Paths and meanings of all pages.
pub const PAGES: [(&str, &str); 9] = [
    ("/ready", "200 once objects and settings were listed, else 503"),
    ("/debug/registry", "Services; also as `/debug/registryz`"),
    ("/debug/endpoints", "Endpoints of all service ports; also as `/debug/endpointz`"),
    ("/debug/config", "Settings and policies; also as `/debug/configz`"),
    ("/debug/connections", "Streams of this replica, with the identity of their callers"),
    ("/debug/pushes", "The last 100 publications: time, changes that caused them, proxies"),
    (
        "/debug/syncz",
        "Versions sent to and accepted by each proxy; `closed_by` names the policy by which it takes no \
         connection",
    ),
    (
        "/debug/config_dump?proxyID=POD.NAMESPACE",
        "Resources of a proxy: versions, rejections with the proxy's reason, references, encoded messages",
    ),
    (
        "/debug/why?proxy=POD.NAMESPACE&resource=NAME",
        "Objects that a resource was generated from, and the inputs of its generator",
    ),
];

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
