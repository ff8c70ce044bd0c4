//! HTTP/1.1 client with one request per connection.

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A request body of known length.
pub(crate) type Whole = Full<Bytes>;

/// Sends a request and returns the answer with an unread body.
pub(crate) async fn ask<S>(stream: S, request: Request<Whole>) -> Result<Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the sender and the body, which also report its errors.
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?)
}

/// Sends a request to the pod's loopback address. Returns the body of a successful answer.
pub(crate) async fn ask_loopback(method: &Method, port: u16, path: &str) -> Result<String> {
    let asked = || format!("{method} http://127.0.0.1:{port}{path}");
    let stream = TcpStream::connect((LOOPBACK, port)).await.with_context(asked)?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, format!("{LOOPBACK}:{port}"))
        .header(CONNECTION, "close")
        .body(Whole::default())
        .with_context(asked)?;
    let (head, body) = ask(stream, request).await.with_context(asked)?.into_parts();
    let body = body.collect().await.with_context(asked)?.to_bytes();
    let body = String::from_utf8_lossy(&body);
    ensure!(head.status.is_success(), "{}: {}: {}", asked(), head.status, body.trim());
    Ok(body.into_owned())
}

const LOOPBACK: &str = "127.0.0.1";
