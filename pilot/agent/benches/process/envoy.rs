//! Stand-in for Envoy: tells its start, and serves large statistics.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use anyhow::Result;

/// True if the agent has started this program as Envoy.
pub(crate) fn is_wanted() -> bool {
    let program = std::env::args_os().next().unwrap_or_default();
    Path::new(&program).file_name().is_some_and(|name| name == NAME)
}

/// Serves until the process is ended.
pub(crate) fn run() -> Result<()> {
    // The working directory is the agent's.
    drop(UnixStream::connect(STARTED)?);
    let statistics = statistics();
    // Our agent reads the admin port, Istio's the listener of Envoy's metrics.
    thread::scope(|scope| {
        scope.spawn(|| serve(15090, &statistics));
        serve(15000, &statistics)
    })
}

fn serve(port: u16, statistics: &str) -> Result<()> {
    for stream in TcpListener::bind(("127.0.0.1", port))?.incoming() {
        // A client that breaks off is the agent's affair.
        let _ = answer(stream?, statistics);
    }
    Ok(())
}

fn answer(mut stream: TcpStream, statistics: &str) -> Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    reader.read_line(&mut request)?;
    let mut header = String::from("-");
    while !header.trim().is_empty() {
        header.clear();
        reader.read_line(&mut header)?;
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (kind, body) = match path.split('?').next().unwrap_or_default() {
        "/stats/prometheus" => ("text/plain; version=0.0.4", statistics),
        "/server_info" => ("application/json", SERVER_INFO),
        _ => ("text/plain", READY),
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body.as_bytes())?;
    Ok(())
}

/// Returns a page of 10 MB in Prometheus' format.
fn statistics() -> String {
    let line = |number: usize| {
        format!(
            "istio_requests_total{{response_code=\"200\",\
             destination_workload=\"web-{number:06}\"}} 1\n"
        )
    };
    (0..STATISTICS.div_ceil(line(0).len())).map(line).collect()
}

/// File name of the program when it stands for Envoy.
pub(crate) const NAME: &str = "envoy";
/// Socket in the working directory that it connects to when it starts.
pub(crate) const STARTED: &str = "started.sock";
/// Length of its statistics in bytes.
pub(crate) const STATISTICS: usize = 10_000_000;
const SERVER_INFO: &str = r#"{"state":"LIVE","command_line_options":{"restart_epoch":0}}"#;
const READY: &str = "cluster_manager.cds.update_success: 1\n\
    listener_manager.lds.update_success: 1\n\
    listener_manager.workers_started: 1\nserver.state: 0\nserver.live: 1\n";
