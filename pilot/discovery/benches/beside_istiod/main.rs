//! Start, CPU and memory of the release program and of Istio's own control plane, from the directory
//! in `ISTIO_PROGRAMS`, and the time from a changed `EndpointSlice` in the API server to the ACKs of
//! proxies.
//!
//! One runs after the other, with its default settings and an API server of its own with the same
//! objects. The clients are in this process.
//!
//! `cargo bench --package pilot-discovery --bench beside_istiod -- SERVICES CLIENTS`
//!
//! `PILOT_DISCOVERY` names another program than the one in `dist/`.

#![allow(clippy::unwrap_used, reason = "a failing benchmark may panic")]
#![allow(clippy::print_stdout, reason = "figures are what it is for")]

mod clients;
mod measurement;
mod objects;
mod report;
mod server;
#[path = "../scale/usage.rs"]
mod usage;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use e2e::istio_programs::IstioPrograms;
use e2e::programs::Programs;
use tokio::runtime::Runtime;

use measurement::Measurement;
use server::Product;

fn main() -> Result<()> {
    let tests = "the benchmark of pilot-discovery beside istiod";
    let Some(istio) = IstioPrograms::find_if_any(tests)? else { return Ok(()) };
    let mut numbers = std::env::args().filter_map(|argument| argument.parse().ok());
    let services = numbers.next().unwrap_or(1_000);
    let clients = usize::try_from(numbers.next().unwrap_or(100))?;
    let programs = Programs::of_api_servers()?;
    let ours = program(&programs)?;
    let istiod = istio.program("pilot-discovery")?;
    let runtime = Runtime::new().context("starting a runtime")?;
    let measurement = Measurement { programs, istio, runtime, services, clients };
    let measure = |product, program: &Path| {
        let measured = measurement.measure(product, program);
        measured.with_context(|| format!("measuring {product:?}"))
    };
    let ours = measure(Product::Outrigger, &ours)?;
    let istio = measure(Product::Istio, &istiod)?;
    println!("{services} services, {} endpoints, {clients} clients", services * objects::ENDPOINTS);
    print!("{}", report::table(clients, &ours, &istio));
    Ok(())
}

fn program(programs: &Programs) -> Result<PathBuf> {
    std::env::var_os("PILOT_DISCOVERY")
        .map_or_else(|| programs.own("pilot-discovery"), |program| Ok(program.into()))
}
