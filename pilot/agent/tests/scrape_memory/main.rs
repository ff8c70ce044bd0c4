//! Memory of a scrape of 100,000 lines, counted by the allocator. The only test of this program, so
//! that no other one allocates.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::alloc::System;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use pilot_agent::admin::Admin;
use pilot_agent::app::{App, Dialer, ProbeTable};
use pilot_agent::config::StatusOptions;
use pilot_agent::status::{Metrics, ScrapeTarget, Scraper, Status, bind, serve};
use prometheus_client::registry::Registry;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn scrape_of_100_000_lines_takes_constant_memory() {
    let (envoy, application) = (server(), server());
    let (told, hear) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = bind(0, &[]).unwrap();
            told.send(listener.local_addr().unwrap().port()).unwrap();
            serve(listener, status(envoy, application)).await;
        });
    });
    let agent = (Ipv4Addr::LOCALHOST, hear.recv().unwrap());
    for _ in 0..2 {
        let before = allocated();
        let (bytes, peak) = scrape(agent.into());
        assert!(bytes > 2 * LINES * line(0).len(), "{bytes} bytes");
        let taken = peak.saturating_sub(before);
        assert!(taken < 512 * 1024, "a page of {bytes} bytes takes {taken} bytes of memory");
    }
}

fn status(envoy: SocketAddr, application: SocketAddr) -> Status {
    let options = StatusOptions {
        port: 15020,
        app_probers: None,
        prometheus_annotations: None,
        scrape_targets: Some(application.port().to_string()),
        probe_localhost: false,
        metrics_on_loopback_only: false,
    };
    let dialer = Dialer::new(Ipv4Addr::LOCALHOST.into(), false);
    let (targets, admin) = (ScrapeTarget::parse_all(&options).unwrap(), Some(Admin::new(envoy)));
    let scraper =
        Scraper::new(Arc::<Registry>::default(), Metrics::default(), admin, dialer, targets);
    Status {
        app: App::new(ProbeTable::default(), dialer).unwrap(),
        scraper: Arc::new(scraper.unwrap()),
        envoy: None,
        names: None,
        health: Arc::default(),
        shutdown: Box::new(|_| false),
        metrics_on_loopback_only: false,
    }
}

/// Starts a server of 100,000 lines, written one by one.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            // A request that is not read to its end would reset the connection.
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let mut writer = BufWriter::new(stream);
            writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n").unwrap();
            for number in 0..LINES {
                writer.write_all(line(number).as_bytes()).unwrap();
            }
        }
    });
    address
}

/// Reads a page slowly enough that it waits for the reader. Returns its bytes and the most memory.
fn scrape(agent: SocketAddr) -> (usize, usize) {
    let mut stream = TcpStream::connect(agent).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let (mut bytes, mut peak) = (0, 0);
    let mut piece = [0; 4096];
    loop {
        let length = stream.read(&mut piece).unwrap();
        if length == 0 {
            return (bytes, peak);
        }
        bytes += length;
        peak = peak.max(allocated());
    }
}

fn line(number: usize) -> String {
    format!("requests_total{{code=\"200\",path=\"/some/path/of/the/application/{number:06}\"}} 1\n")
}

fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

const LINES: usize = 100_000;
