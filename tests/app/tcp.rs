//! Plain TCP.

use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::answer::host_name;
use crate::failures::Failures;

/// Listens, except while it is to fail: then the port is closed.
pub(crate) async fn serve(port: u16, failures: Failures) -> Result<()> {
    let name = format!("tcp-{port}");
    loop {
        while failures.has(&name) {
            sleep(BETWEEN_LOOKS).await;
        }
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await;
        let listener = listener.with_context(|| format!("listening on {port}"))?;
        while !failures.has(&name) {
            if let Ok(Ok((stream, _))) = timeout(BETWEEN_LOOKS, listener.accept()).await {
                drop(stream);
            }
        }
    }
}

/// Returns each line to its sender.
pub(crate) async fn echo(port: u16) -> Result<()> {
    each(port, |mut stream| async move {
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.map(drop)
    })
    .await
}

/// Greets each client, and waits until it has gone.
pub(crate) async fn greet(port: u16) -> Result<()> {
    each(port, |mut stream| async move {
        stream.write_all(format!("greeting from {}\n", host_name()).as_bytes()).await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
    })
    .await
}

async fn each<F>(port: u16, serve: impl Fn(TcpStream) -> F) -> Result<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await;
    let listener = listener.with_context(|| format!("listening on {port}"))?;
    loop {
        let (stream, _) = listener.accept().await.context("taking a connection")?;
        tokio::spawn(serve(stream));
    }
}

const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
