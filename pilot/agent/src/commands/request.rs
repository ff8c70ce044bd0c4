//! `pilot-agent request`: sends a request to the pod's loopback address.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use hyper::Request;
use hyper::header::{CONNECTION, HOST};
use tokio::time::timeout;

use crate::arguments::RequestArgs;
use crate::http::{FullBody, connect_loopback, read_at_most, send};

/// Sends the request and writes the body of a successful response to `output`.
pub async fn run(args: &RequestArgs, output: &mut impl Write) -> Result<()> {
    let method = args.method.clone();
    let authority = format!("localhost:{}", args.port);
    let asked = format!("{method} http://{authority}{}", args.path);
    let request = Request::builder()
        .method(method)
        .uri(args.path.clone())
        .header(HOST, authority)
        .header(CONNECTION, "close")
        .body(FullBody::from(args.body.clone().unwrap_or_default()))
        .with_context(|| asked.clone())?;
    match timeout(TIMEOUT, write_response(args.port, request, output)).await {
        Ok(written) => written.context(asked),
        Err(_) => bail!("{asked}: no complete response within {TIMEOUT:?}"),
    }
}

async fn write_response(
    port: u16,
    request: Request<FullBody>,
    output: &mut impl Write,
) -> Result<()> {
    let stream = connect_loopback(port).await.context("the connection failed")?;
    let (head, mut body) = send(stream, request).await?.into_parts();
    if !head.status.is_success() {
        let text = read_at_most(body, ERROR_LIMIT).await.unwrap_or_default();
        bail!("{}: {}", head.status, String::from_utf8_lossy(&text).trim());
    }
    let mut last = b'\n';
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            output.write_all(&data).context("writing the response")?;
            last = data.last().copied().unwrap_or(last);
        }
    }
    if last != b'\n' {
        output.write_all(b"\n").context("writing the response")?;
    }
    output.flush().context("writing the response")
}

const TIMEOUT: Duration = Duration::from_secs(60);
const ERROR_LIMIT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use hyper::Method;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn request(method: Method, path: &str, answer: &'static str) -> (Result<String>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let args = RequestArgs {
            port: listener.local_addr().unwrap().port(),
            method,
            path: path.parse().unwrap(),
            body: Some("level=debug".to_owned()),
        };
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        let mut output = Vec::new();
        let result = run(&args, &mut output).await;
        (result.map(|()| String::from_utf8(output).unwrap()), server.await.unwrap())
    }

    #[tokio::test]
    async fn response_is_written_with_a_final_newline() {
        let (output, head) =
            request(Method::POST, "/logging?x", "HTTP/1.1 200 OK\r\n\r\ndone").await;
        assert_eq!(output.unwrap(), "done\n");
        assert!(head.starts_with("POST /logging?x HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("content-length: 11\r\n"), "{head}");
    }

    #[tokio::test]
    async fn error_status_is_an_error_with_its_text() {
        let (result, _) = request(Method::GET, "/x", "HTTP/1.1 404 Not Found\r\n\r\nno /x\n").await;
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.ends_with("/x: 404 Not Found: no /x"), "{error}");
    }
}
