//! Requests of the application to others.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Returns a line with the answer to a URL, or with the reason why there is none.
pub(crate) async fn line(url: &str) -> String {
    match answer(url).await {
        Ok(answer) => format!("{url} {}", answer.trim()),
        Err(error) => format!("{url} FAILED: {error:#}"),
    }
}

/// Makes a request on a connection of its own: `http`, `h2` (without TLS), `grpc` (a health check),
/// `tcp` (a line that returns), `greeting` (a line that the server sends unasked).
pub(crate) async fn answer(url: &str) -> Result<String> {
    timeout(REQUEST_TIMEOUT, exchange(url)).await.context("no answer in time")?
}

async fn exchange(url: &str) -> Result<String> {
    let url: Uri = url.parse()?;
    let host = url.host().context("a URL without host")?;
    let address = format!("{host}:{}", url.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(&address).await.context("connecting")?;
    match url.scheme_str().unwrap_or_default() {
        "http" => page(stream, &url, Version::Http1).await,
        "h2" => page(stream, &url, Version::Http2).await,
        "grpc" => health(stream, &url).await,
        "tcp" => echo(stream).await,
        "greeting" => read_line(&mut BufReader::new(stream)).await,
        scheme => bail!("unknown scheme {scheme}"),
    }
}

#[derive(Clone, Copy)]
enum Version {
    Http1,
    Http2,
}

async fn page(stream: TcpStream, url: &Uri, version: Version) -> Result<String> {
    let authority = url.authority().context("a URL without authority")?.as_str();
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let body = Full::new(Bytes::new());
    let response = match version {
        Version::Http1 => {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let request = Request::get(path).header(HOST, authority).body(body)?;
            sender.send_request(request).await?
        }
        Version::Http2 => {
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let request = Request::get(format!("http://{authority}{path}")).body(body)?;
            sender.send_request(request).await?
        }
    };
    let status = response.status();
    let flags = response.headers().get("x-envoy-upstream-service-time").is_some();
    let body = response.into_body().collect().await.context("reading the body")?.to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    ensure!(status.is_success(), "status {status} (of a server: {flags}): {}", body.trim());
    Ok(body)
}

/// Asks for the health of a server by gRPC.
async fn health(stream: TcpStream, url: &Uri) -> Result<String> {
    let authority = url.authority().context("a URL without authority")?;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header(CONTENT_TYPE, "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from_static(&[0; 5])))?;
    let response = sender.send_request(request).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.context("reading the body")?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let status = trailers.get("grpc-status").or_else(|| head.headers.get("grpc-status"));
    ensure!(status.is_some_and(|status| status == "0"), "{head:?}, trailers {trailers:?}");
    Ok(if body.to_bytes().ends_with(&[1]) { "serving" } else { "not serving" }.to_owned())
}

async fn echo(mut stream: TcpStream) -> Result<String> {
    stream.write_all(b"hello\n").await?;
    read_line(&mut BufReader::new(stream)).await
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line).await.context("reading a line")?;
    ensure!(!line.is_empty(), "the connection was closed");
    Ok(line)
}

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
