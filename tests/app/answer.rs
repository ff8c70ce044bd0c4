//! Requests to the application, and its answers.

use std::fs;
use std::net::IpAddr;

use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Request, Response, StatusCode};
use std::convert::Infallible;

use crate::failures::Failures;
use crate::say;

/// A request and its connection.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) port: u16,
    pub(crate) peer: IpAddr,
    pub(crate) tls: bool,
    pub(crate) failures: Failures,
}

pub(crate) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Answers a request. The path `/peer` returns the client's address, `/caller` the client's
/// certificate as the proxy tells it, and `/checked` requires a
/// header and a host. A gRPC health check is answered. A path fails while a file of its name
/// exists.
pub(crate) async fn answer(request: Request<Incoming>, question: &Question) -> Answer {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let text = |name: &str| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or("-").to_owned()
    };
    let (host, probe) = (text("host"), text("x-probe"));
    // Of load, there is no log.
    if path == "/load" {
        return page(StatusCode::OK, "fine\n".to_owned());
    }
    say(&format!(
        "{} {path} port={} peer={} tls={} host={host} x-probe={probe} user-agent={}",
        head.method,
        question.port,
        question.peer,
        question.tls,
        text("user-agent"),
    ));
    if path == "/grpc.health.v1.Health/Check" {
        let asked = body.collect().await.map(http_body_util::Collected::to_bytes);
        return health(&asked.unwrap_or_default(), &question.failures);
    }
    if question.failures.has(path.trim_start_matches('/')) {
        return page(StatusCode::SERVICE_UNAVAILABLE, "as requested\n".to_owned());
    }
    match &*path {
        "/caller" => {
            let by = text("x-forwarded-client-cert");
            page(StatusCode::OK, format!("{} called by {by}\n", host_name()))
        }
        "/peer" => page(StatusCode::OK, format!("{}\n", question.peer)),
        "/checked" if host != "probe.example" || probe != "yes" => {
            page(StatusCode::BAD_REQUEST, format!("host {host}, x-probe {probe}\n"))
        }
        _ => page(StatusCode::OK, "fine\n".to_owned()),
    }
}

/// Returns the name of the pod.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn page(status: StatusCode, text: String) -> Answer {
    let mut response = Response::new(Full::from(text).boxed());
    *response.status_mut() = status;
    response
}

/// Answers gRPC's health protocol: the whole server is healthy, and so is every service without a
/// file.
fn health(question: &[u8], failures: &Failures) -> Answer {
    // Five bytes of framing, then field 1 with its length.
    let service = question.get(7..).unwrap_or_default();
    let service = String::from_utf8_lossy(service).into_owned();
    say(&format!("health of {service:?}"));
    let name = if service.is_empty() { "server" } else { &service };
    let health = if failures.has(name) { NOT_SERVING } else { SERVING };
    let frame = Full::from(vec![0, 0, 0, 0, 2, 0x08, health]);
    let trailers = async {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", hyper::header::HeaderValue::from_static("0"));
        Some(Ok(trailers))
    };
    let mut response = Response::new(frame.with_trailers(Box::pin(trailers)).boxed());
    let grpc = hyper::header::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(CONTENT_TYPE, grpc);
    response
}

const SERVING: u8 = 1;
const NOT_SERVING: u8 = 2;
