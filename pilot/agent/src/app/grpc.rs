//! gRPC's health protocol, `grpc.health.v1.Health/Check`: the request is one string, the answer one
//! number.

use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http2;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use thiserror::Error;
use tokio::net::TcpStream;

use super::dial::Dialer;
use super::{ProbeError, http_get::BODY_LIMIT};
use crate::http::FullBody;

/// Returns if the server reports `service` as serving; else the error has its status.
pub(super) async fn check(dialer: &Dialer, port: u16, service: &str) -> Result<(), ProbeError> {
    let stream = dialer.connect(None, port).await?;
    let authority = dialer.authority(None, port);
    exchange(stream, &authority, service).await.map_err(|source| ProbeError::Health {
        service: service.to_owned(),
        port,
        source,
    })
}

/// Reason of a failed health check.
#[derive(Debug, Error)]
pub enum HealthError {
    /// No HTTP/2, or a broken connection.
    #[error("the exchange failed")]
    Exchange(#[source] hyper::Error),
    /// Unreadable body.
    #[error("the answer is not readable: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// HTTP status other than 200.
    #[error("the server answers {0}")]
    Http(StatusCode),
    /// gRPC status other than OK.
    #[error("gRPC status {code}: {message}")]
    Status {
        /// `grpc-status`.
        code: String,
        /// `grpc-message`.
        message: String,
    },
    /// Answer without a gRPC status.
    #[error("the answer has no gRPC status")]
    NoStatus,
    /// Answer with another message.
    #[error("the answer is not a HealthCheckResponse")]
    Message,
    /// Health other than SERVING.
    #[error("the server says {0}")]
    NotServing(&'static str),
}

async fn exchange(stream: TcpStream, authority: &str, service: &str) -> Result<(), HealthError> {
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .map_err(HealthError::Exchange)?;
    tokio::spawn(connection);
    let mut request = Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header(CONTENT_TYPE, "application/grpc")
        .header("te", "trailers")
        .body(FullBody::default())
        .map_err(|error| HealthError::Body(error.into()))?;
    *request.body_mut() = FullBody::from(health_request(service));
    let answer = sender.send_request(request).await.map_err(HealthError::Exchange)?;
    if answer.status() != StatusCode::OK {
        return Err(HealthError::Http(answer.status()));
    }
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(HealthError::Body)?;
    // An answer without a message has its trailers in the header.
    expect_ok(body.trailers().unwrap_or(&head.headers))?;
    match health(&body.to_bytes()).ok_or(HealthError::Message)? {
        SERVING => Ok(()),
        health => Err(HealthError::NotServing(word(health))),
    }
}

fn expect_ok(trailers: &HeaderMap) -> Result<(), HealthError> {
    let text = |name| trailers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        Some(code) => Err(HealthError::Status {
            code: code.to_owned(),
            message: text("grpc-message").unwrap_or_default().to_owned(),
        }),
        None => Err(HealthError::NoStatus),
    }
}

/// Returns a framed `HealthCheckRequest`: field 1 is the service, omitted if empty.
fn health_request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        message.extend(varint(service.len()));
        message.extend(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

/// Returns the number of a `HealthCheckResponse`: field 1, zero if omitted.
fn health(frame: &[u8]) -> Option<u8> {
    match *frame {
        [0, 0, 0, 0, 0] => Some(UNKNOWN),
        [0, 0, 0, 0, 2, 0x08, health] => Some(health),
        _ => None,
    }
}

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or_default();
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn word(health: u8) -> &'static str {
    match health {
        UNKNOWN => "UNKNOWN",
        2 => "NOT_SERVING",
        3 => "SERVICE_UNKNOWN",
        _ => "an unknown health",
    }
}

const UNKNOWN: u8 = 0;
const SERVING: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_request_is_framed_protobuf() {
        assert_eq!(health_request(""), [0, 0, 0, 0, 0]);
        assert_eq!(health_request("db"), [0, 0, 0, 0, 4, 0x0a, 2, b'd', b'b']);
        let long = health_request(&"x".repeat(300));
        assert_eq!(long[..8], [0, 0, 0, 1, 0x2f, 0x0a, 0xac, 0x02]);
    }

    #[test]
    fn health_response_is_parsed() {
        assert_eq!(health(&[0, 0, 0, 0, 2, 8, 2]), Some(2));
        assert_eq!(health(&[0, 0, 0, 0, 0]), Some(UNKNOWN));
        assert_eq!(health(b"hello"), None);
    }

    #[test]
    fn response_without_status_is_a_failure() {
        assert!(matches!(expect_ok(&HeaderMap::new()), Err(HealthError::NoStatus)));
    }
}
