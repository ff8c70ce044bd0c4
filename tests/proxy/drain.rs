//! Draining before the pod ends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bootstrap::ADMIN_PORT;

/// Tells Envoy to close connections as they finish, and to go on accepting.
pub(crate) fn drain() -> Result<()> {
    let request = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, ADMIN_PORT))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let path = "/drain_listeners?graceful&skip_exit";
        write!(stream, "POST {path} HTTP/1.1\r\nHost: envoy\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = request().context("asking Envoy's admin interface to drain")?;
    let status = answer.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200 "), "Envoy's admin interface answered `{status}`");
    Ok(())
}

const PATIENCE: Duration = Duration::from_secs(5);
