//! gRPC's health protocol, `grpc.health.v1.Health/Check`: the request is one string, the answer one
//! number.

use anyhow::{Context, Result, bail, ensure};
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::dial::Dialer;
use crate::http::Whole;

/// Returns if the server reports `service` as serving; else the error has its status.
pub(super) async fn check(dialer: &Dialer, port: u16, service: &str) -> Result<()> {
    let asked = || format!("asking for the health of {service:?} at port {port}");
    let stream = TokioIo::new(dialer.dial(None, port).await?);
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), stream).await.with_context(asked)?;
    tokio::spawn(connection);
    let uri = format!("http://{}/grpc.health.v1.Health/Check", dialer.authority(None, port));
    let request = Request::post(uri)
        .header(CONTENT_TYPE, "application/grpc")
        .header("te", "trailers")
        .body(Whole::from(question(service)))?;
    let answer = sender.send_request(request).await.with_context(asked)?;
    ensure!(answer.status() == 200, "{}: the server answers {}", asked(), answer.status());
    let (head, body) = answer.into_parts();
    let body = body.collect().await.with_context(asked)?;
    // An answer without a message has its trailers in the header.
    let trailers = body.trailers().unwrap_or(&head.headers);
    expect_success(trailers).with_context(asked)?;
    let health = health(&body.to_bytes()).with_context(asked)?;
    ensure!(health == SERVING, "{}: the server says {}", asked(), word(health));
    Ok(())
}

fn expect_success(trailers: &HeaderMap) -> Result<()> {
    let text = |name| trailers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        Some("0") => Ok(()),
        Some(code) => bail!("gRPC status {code}: {}", text("grpc-message").unwrap_or_default()),
        None => bail!("the answer has no gRPC status"),
    }
}

/// Returns a framed `HealthCheckRequest`: field 1 is the service, omitted if empty.
fn question(service: &str) -> Vec<u8> {
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
fn health(frame: &[u8]) -> Result<u8> {
    match *frame {
        [0, 0, 0, 0, 0] => Ok(UNKNOWN),
        [0, 0, 0, 0, 2, 0x08, health] => Ok(health),
        _ => bail!("the answer is no HealthCheckResponse"),
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
        SERVING => "SERVING",
        2 => "NOT_SERVING",
        3 => "SERVICE_UNKNOWN",
        _ => "a health that is not known",
    }
}

const UNKNOWN: u8 = 0;
const SERVING: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_request_is_framed_protobuf() {
        assert_eq!(question(""), [0, 0, 0, 0, 0]);
        assert_eq!(question("db"), [0, 0, 0, 0, 4, 0x0a, 2, b'd', b'b']);
        let long = question(&"x".repeat(300));
        assert_eq!(long[..8], [0, 0, 0, 1, 0x2f, 0x0a, 0xac, 0x02]);
    }

    #[test]
    fn health_response_is_parsed() {
        assert_eq!(health(&[0, 0, 0, 0, 2, 8, 2]).unwrap(), 2);
        assert_eq!(health(&[0, 0, 0, 0, 0]).unwrap(), UNKNOWN);
        assert!(health(b"hello").is_err());
    }

    #[test]
    fn response_without_status_is_a_failure() {
        assert!(expect_success(&HeaderMap::new()).is_err());
    }
}
