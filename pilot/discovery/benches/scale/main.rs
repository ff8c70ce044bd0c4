//! Latency, memory and CPU of publishing to many proxies: the server in a process of its own, delta
//! clients in this one, all on loopback. The API server is left out: events enter the queue.
//!
//! `cargo bench --package pilot-discovery --bench scale -- SERVICES CLIENTS`

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failing benchmark may panic")]
#![allow(clippy::print_stdout, reason = "the result of the benchmark")]

mod clients;
mod server;
mod usage;

use std::time::Instant;

use mimalloc::MiMalloc;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| -> Option<usize> { arguments.get(index)?.parse().ok() };
    if arguments.first().is_some_and(|first| first == "serve") {
        return server::serve(
            number(1).unwrap(),
            number(2).unwrap(),
            u32::try_from(number(3).unwrap()).unwrap(),
        );
    }
    match (number(0), number(1)) {
        (Some(services), Some(clients)) => measure(services, clients),
        _ => {
            for (services, clients) in [(100, 1), (100, 1_000), (10_000, 1), (10_000, 50)] {
                measure(services, clients);
            }
        }
    }
}

fn measure(services: usize, count: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut server = server::Child::start(services, 0, 0);
    let idle = server.memory();
    let begin = Instant::now();
    let clients = runtime.block_on(clients::connect(server.address(), count, None));
    let connected = begin.elapsed();
    let cpu = server.cpu();
    let memory = server.memory();
    let mut latencies = Vec::new();
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        server.change_endpoint();
        runtime.block_on(clients.updated());
        latencies.push(begin.elapsed());
    }
    latencies.sort_unstable();
    println!(
        "{services} services, {} endpoints, {count} clients: connected in {connected:.1?}, \
         CPU of the server {cpu:.1?}; memory \
         {idle} MB idle, {memory} MB connected, {} MB after; change to last ACK p50 {:.1?}, worst {:.1?}",
        services * server::ENDPOINTS,
        server.memory(),
        latencies[ROUNDS / 2],
        latencies[ROUNDS - 1],
    );
    let (known, port) = (clients.versions(), server.address().port());
    drop(clients);
    drop(server);
    // The same port and objects: the clients come back with what they have.
    let server = server::Child::start(services, port, ROUNDS);
    let begin = Instant::now();
    let clients = runtime.block_on(clients::connect(server.address(), count, Some(known)));
    println!(
        "  restart: all connected in {:.1?}, CPU of the server {:.1?}; {} resources sent again",
        begin.elapsed(),
        server.cpu(),
        clients.received()
    );
}

const ROUNDS: usize = 40;
