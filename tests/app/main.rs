//! The application of the tests. It answers over HTTP, HTTPS, gRPC and plain TCP, logs its
//! requests, and fails if a file in its folder demands it. It also makes requests and resolves
//! names.

mod answer;
mod client;
mod failures;
mod load;
mod resolve;
mod tcp;
mod web;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use failures::Failures;

#[derive(Debug, Parser)]
struct Arguments {
    /// Ports of HTTP/1.1 and of HTTP/2 without TLS, which is gRPC
    #[arg(long)]
    http: Vec<u16>,
    /// Ports of HTTPS, with a self-signed certificate
    #[arg(long)]
    https: Vec<u16>,
    /// Ports that accept and close connections; closed while the file `tcp-PORT` exists
    #[arg(long)]
    tcp: Vec<u16>,
    /// Ports that return each line
    #[arg(long)]
    echo: Vec<u16>,
    /// Ports whose server speaks first
    #[arg(long)]
    greeting: Vec<u16>,
    /// Requests this URL all the time
    #[arg(long, requires = "report")]
    load: Option<String>,
    /// Requests of `--load` in a second
    #[arg(long, default_value_t = 300)]
    rate: u32,
    /// Port that reports on the requests of `--load`
    #[arg(long)]
    report: Option<u16>,
    /// Instead of serving, requests URLs and prints a line for each
    #[arg(long, num_args = 1..)]
    call: Vec<String>,
    /// Instead of serving, resolves names and prints a line for each
    #[arg(long, num_args = 1..)]
    resolve: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !arguments.resolve.is_empty() {
        arguments.resolve.iter().for_each(|name| say(&resolve::line(name)));
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime
        .context("starting the runtime")
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("app: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    if !arguments.call.is_empty() {
        for url in arguments.call {
            say(&client::line(&url).await);
        }
        return Ok(());
    }
    let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let failures = Failures::create("/failures".into())?;
    let mut servers = JoinSet::new();
    for port in arguments.http {
        servers.spawn(web::serve(port, None, failures.clone()));
    }
    for port in arguments.https {
        servers.spawn(web::serve(port, Some(web::self_signed()?), failures.clone()));
    }
    for port in arguments.tcp {
        servers.spawn(tcp::serve(port, failures.clone()));
    }
    for port in arguments.echo {
        servers.spawn(tcp::echo(port));
    }
    for port in arguments.greeting {
        servers.spawn(tcp::greet(port));
    }
    if let (Some(url), Some(port)) = (arguments.load, arguments.report) {
        servers.spawn(load::run(url, arguments.rate, port));
    }
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        Some(ended) = servers.join_next() => ended.context("a server")?,
    }
}

#[expect(clippy::print_stdout, reason = "the container's log is what the stories read")]
fn say(line: &str) {
    println!("{line}");
}
