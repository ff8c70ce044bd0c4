//! Plain TCP.

use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

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

const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
