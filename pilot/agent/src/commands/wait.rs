//! `pilot-agent wait`: the hook that delays the application until the proxy is ready.

use anyhow::{Context, Result, anyhow, bail};
use hyper::header::{CONNECTION, HOST};
use hyper::{Request, Uri};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::arguments::WaitArgs;
use crate::http::{FullBody, connect_loopback, read_at_most, send};

/// Returns when the URL answers 200. After the timeout, the error has the last answer.
pub async fn run(args: &WaitArgs) -> Result<()> {
    let target = Target::from_url(&args.url)?;
    let deadline = Instant::now() + args.timeout;
    loop {
        let patience = args.request_timeout.min(deadline - Instant::now());
        let error = match timeout(patience, target.ready()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => anyhow!("no answer within {:?}", args.request_timeout),
        };
        if Instant::now() + args.period >= deadline {
            bail!("not ready after {:?}: {}: {error:#}", args.timeout, args.url);
        }
        sleep(args.period).await;
    }
}

struct Target<'a> {
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> Target<'a> {
    fn from_url(url: &'a Uri) -> Result<Self> {
        let host = url.host().with_context(|| format!("--url {url}: the host is missing"))?;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self { host, port: url.port_u16().unwrap_or(80), path })
    }

    async fn ready(&self) -> Result<()> {
        let Self { host, port, path } = self;
        let stream = self.connect().await.with_context(|| format!("connecting to port {port}"))?;
        let request = Request::get(*path)
            .header(HOST, format!("{host}:{port}"))
            .header(CONNECTION, "close")
            .body(FullBody::default())?;
        let (head, body) = send(stream, request).await?.into_parts();
        if head.status == 200 {
            return Ok(());
        }
        let text = read_at_most(body, TEXT_LIMIT).await.unwrap_or_default();
        bail!("{}: {}", head.status, String::from_utf8_lossy(&text).trim())
    }

    async fn connect(&self) -> std::io::Result<TcpStream> {
        // The pod's own loopback address needs no resolver.
        if self.host == "localhost" {
            return connect_loopback(self.port).await;
        }
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        TcpStream::connect((host, self.port)).await
    }
}

const TEXT_LIMIT: usize = 4096;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Waits for a server with these answers, one per connection.
    async fn wait(answers: &'static [&'static str], timeout: Duration) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}/ready", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let url = url.parse().unwrap();
        let period = Duration::from_millis(1);
        run(&WaitArgs { url, timeout, period, request_timeout: Duration::from_secs(20) }).await
    }

    #[tokio::test]
    async fn wait_ends_with_the_first_success() {
        const ANSWERS: &[&str] =
            &["HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"];
        wait(ANSWERS, Duration::from_secs(60)).await.unwrap();
    }

    #[tokio::test]
    async fn timeout_error_names_the_url() {
        let answers = &["HTTP/1.1 503 x\r\nContent-Length: 9\r\n\r\nno reason"];
        let error = wait(answers, Duration::from_millis(1)).await.unwrap_err().to_string();
        assert!(error.starts_with("not ready after 1ms: http://localhost:"), "{error}");
    }

    #[test]
    fn default_port_is_80() {
        let url = "http://ready.example/x?y".parse().unwrap();
        let target = Target::from_url(&url).unwrap();
        assert_eq!((target.port, target.path), (80, "/x?y"));
    }
}
