//! `pilot-agent wait`: the hook that holds the application back until the proxy is ready.

use anyhow::{Context, Result, bail, ensure};
use hyper::Uri;
use hyper::header::{CONNECTION, HOST};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::arguments::Wait;
use crate::http::{Whole, ask};

/// Returns when the URL answers 200. The error has the last answer.
pub(crate) async fn run(wait: &Wait) -> Result<()> {
    let target = Target::of(&wait.url)?;
    let deadline = Instant::now() + wait.patience;
    loop {
        let answer = match timeout(wait.request_timeout, target.is_ready()).await {
            Ok(answer) => answer,
            Err(_) => Err(anyhow::anyhow!("no answer in {:?}", wait.request_timeout)),
        };
        match answer {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() + wait.period >= deadline => {
                bail!("not ready after {:?}: {}: {error:#}", wait.patience, wait.url)
            }
            Err(_) => sleep(wait.period).await,
        }
    }
}

struct Target<'a> {
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl<'a> Target<'a> {
    fn of(url: &'a Uri) -> Result<Self> {
        ensure!(
            url.scheme_str() == Some("http"),
            "--url {url}: expected http://HOST[:PORT]/PATH, as http://localhost:15021/healthz/ready"
        );
        let host = url.host().with_context(|| format!("--url {url} names no host"))?;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        // The pod's own loopback address needs no resolver.
        let host = if host == "localhost" { "127.0.0.1" } else { host };
        Ok(Self { host, port: url.port_u16().unwrap_or(80), path })
    }

    async fn is_ready(&self) -> Result<()> {
        let Self { host, port, path } = self;
        let stream = TcpStream::connect((*host, *port)).await?;
        let request = hyper::Request::get(*path)
            .header(HOST, format!("{host}:{port}"))
            .header(CONNECTION, "close")
            .body(Whole::default())?;
        let status = ask(stream, request).await?.status();
        ensure!(status == 200, "it answers {status}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_without_scheme_is_rejected_with_an_example() {
        let url = "localhost:15021".parse().unwrap();
        let error = Target::of(&url).err().unwrap().to_string();
        assert!(error.contains("http://localhost:15021/healthz/ready"), "{error}");
    }

    #[test]
    fn default_port_is_80() {
        let url = "http://ready.example/x?y".parse().unwrap();
        let target = Target::of(&url).unwrap();
        assert_eq!((target.port, target.path), (80, "/x?y"));
    }
}
