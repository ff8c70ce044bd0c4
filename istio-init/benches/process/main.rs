//! Benchmark of the program in network namespaces, from start to installed rules.
//!
//! Clocks and the machine are noisy: the fastest of many runs counts, a program that does nothing
//! is measured beside it, and instructions are counted where possible. `make bench` builds the
//! programs.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

mod connections;
mod launch;
#[path = "../../../tests/src/netns.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the end-to-end tests use the rest")]
mod netns;
mod programs;
#[path = "../../../tests/src/skipped_tests.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the end-to-end tests use the rest")]
mod skipped_tests;
#[path = "../../../tests/src/user_namespace.rs"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the end-to-end tests use the rest")]
mod user_namespace;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use launch::Cost;
use netns::Namespace;

fn main() -> Result<()> {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("left out: only `make bench` has what is measured here");
        return Ok(());
    }
    let program = programs::istio_init()?;
    let empty = programs::empty()?;
    println!("{} bytes: {}", std::fs::metadata(&program)?.len(), program.display());

    println!("\n| fastest of {RUNS} | wall ms | CPU ms | wall to an empty program's |");
    println!("| --- | --- | --- | --- |");
    let nothing = fastest(&empty, &[], &[], State::Clean)?;
    row("an empty static program", nothing, nothing);
    let cidrs = cidrs(1_000);
    for case in cases(&cidrs) {
        row(case.title, fastest(&program, &case.arguments, &case.first, case.state)?, nothing);
    }

    println!("\n| of one run | millions of instructions | peak memory KiB | other programs run |");
    println!("| --- | --- | --- | --- |");
    for case in cases(&cidrs) {
        let instructions = prepared(&program, &case)?
            .run(|| launch::instructions(&program, &case.arguments))??;
        let memory =
            prepared(&program, &case)?.run(|| launch::peak_memory(&program, &case.arguments))??;
        let others = prepared(&program, &case)?
            .run(|| launch::other_programs(&program, &case.arguments))??;
        let millions = f64::from(u32::try_from(instructions / 1_000)?) / 1_000.0;
        println!("| {} | {millions:.2} | {memory} | {others} |", case.title);
    }

    connections::compare(&program, &cidrs)
}

/// A measured case and its preparation.
struct Case<'a> {
    title: &'static str,
    /// Arguments of a run before it, not measured.
    first: Vec<&'a str>,
    arguments: Vec<&'a str>,
    state: State,
}

/// State of the namespace before the measured run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Empty.
    Clean,
    /// Rules of a run with other arguments.
    After,
}

fn cases(cidrs: &str) -> Vec<Case<'_>> {
    let case = |title, first: &[&'static str], arguments: &[&'static str], state| Case {
        title,
        first: first.to_vec(),
        arguments: arguments.to_vec(),
        state,
    };
    let mut cases = vec![
        case("`--dry-run`", &[], &["-b", "*", "--dry-run"], State::Clean),
        case("nftables, clean pod", &[], &POD, State::Clean),
        case("nftables, clean pod, DNS", &[], &DNS, State::Clean),
        case("nftables, nothing to change", &POD, &POD, State::After),
        case("nftables, cleanup", &POD, &CLEANUP, State::After),
        case("iptables, clean pod", &[], &IPTABLES, State::Clean),
        case("iptables, nothing to change", &IPTABLES, &IPTABLES, State::After),
        case("iptables, cleanup", &IPTABLES, &CLEANUP, State::After),
    ];
    let many = ["-u", "1337", "-b", "*", "-i", "*", "-x", cidrs, NFTABLES];
    cases.push(Case {
        title: "nftables, clean pod, 1,000 excluded CIDRs",
        first: Vec::new(),
        arguments: many.to_vec(),
        state: State::Clean,
    });
    cases
}

/// Returns ranges that are not adjacent.
fn cidrs(count: u32) -> String {
    let range = |number: u32| format!("10.{}.{}.0/25", number / 250, number % 250);
    (0..count).map(range).collect::<Vec<_>>().join(",")
}

/// Returns the fastest of many runs, each in its own namespace.
fn fastest(program: &Path, arguments: &[&str], first: &[&str], state: State) -> Result<Cost> {
    let mut fastest = Cost::MOST;
    for _ in 0..RUNS {
        let namespace = pod()?;
        let cost = namespace.run(|| {
            if state == State::After {
                succeed(program, first)?;
            }
            launch::timed(program, arguments)
        })??;
        fastest = fastest.least(cost);
    }
    Ok(fastest)
}

fn prepared(program: &Path, case: &Case<'_>) -> Result<Namespace> {
    let namespace = pod()?;
    if case.state == State::After {
        namespace.run(|| succeed(program, &case.first))??;
    }
    Ok(namespace)
}

/// Creates a namespace like a pod's, with an address and a route.
fn pod() -> Result<Namespace> {
    let pod = Namespace::create()?;
    pod.ip("addr add 192.0.2.2/24 dev lo\nroute add default via 192.0.2.1 dev lo")?;
    Ok(pod)
}

fn succeed(program: &Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).output().context("starting istio-init")?;
    if !output.status.success() {
        bail!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn row(title: &str, cost: Cost, nothing: Cost) {
    let Cost { wall, cpu } = cost;
    println!("| {title} | {wall:.2} | {cpu:.2} | +{:.2} |", wall - nothing.wall);
}

const RUNS: u32 = 40;
const POD: [&str; 7] = ["-u", "1337", "-b", "*", "-i", "*", NFTABLES];
const DNS: [&str; 8] = ["-u", "1337", "-b", "*", "-i", "*", "--redirect-dns", NFTABLES];
const IPTABLES: [&str; 8] = ["-u", "1337", "-b", "*", "-i", "*", "--backend", "iptables"];
/// Prevents the use of the machine's iptables.
const NFTABLES: &str = "--native-nftables";
const CLEANUP: [&str; 1] = ["cleanup"];
