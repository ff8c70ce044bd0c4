//! Ports for the node's programs.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

/// A port that nobody listened on a moment ago.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("finding a free port")?;
    Ok(listener.local_addr().context("finding a free port")?.port())
}
