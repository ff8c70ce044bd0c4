//! Requests through two sidecars with mutual TLS: Envoys with the configuration of this program and
//! the agent's certificates, beside Envoys with a configuration that is written by hand for this
//! path alone. Both have the same certificates. They take turns, so that other load hits both.
//!
//! `cargo bench --package pilot-discovery --bench sidecars -- ROUNDS REQUESTS` (root). A round is
//! REQUESTS on warm connections through each pair, and fewer with a handshake each.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failing benchmark may panic")]
#![allow(clippy::print_stdout, reason = "the result of the benchmark")]

mod certificates;
mod generated;
mod handwritten;
mod load;
mod pair;
mod report;
#[expect(dead_code, reason = "memory is not measured here")]
#[path = "../scale/usage.rs"]
mod usage;

use std::env;
use std::process::ExitCode;

use e2e::run_folder::RunFolder;

use crate::certificates::Certificates;
use crate::pair::{Hosts, Measurement, Pair};
use crate::report::Comparison;

/// Runs the benchmark, or the agent that it has started: cargo does not name the programs of other
/// packages to a benchmark.
fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|first| ["proxy", "envoy-child"].contains(&&*first)) {
        return pilot_agent::cli::main(env::args_os(), env::vars_os());
    }
    let numbers: Vec<usize> = env::args().filter_map(|argument| argument.parse().ok()).collect();
    let rounds = numbers.first().copied().unwrap_or(ROUNDS);
    let requests = numbers.get(1).copied().unwrap_or(REQUESTS);

    let folder = RunFolder::of_process().unwrap();
    let hosts = Hosts::create();
    load::serve(&hosts.server, pair::APPLICATION);
    let certificates = Certificates::create();
    let mut generated = generated::start(&folder, &hosts, &certificates);
    let mut handwritten = handwritten::start(&folder, &hosts, &certificates);
    generated.wait_until_it_answers(&hosts);
    handwritten.wait_until_it_answers(&hosts);

    let mut comparisons =
        ["warm, one connection", "warm, 16 connections", "handshake each"].map(Comparison::new);
    for round in 0..=rounds {
        // The other one begins in the next round.
        for is_generated in [round % 2 == 0, round % 2 == 1] {
            let pair = if is_generated { &generated } else { &handwritten };
            let measured = measure(pair, &hosts, requests);
            if round == 0 {
                // It warms up.
                continue;
            }
            for (comparison, measured) in comparisons.iter_mut().zip(measured) {
                comparison.add(is_generated, measured);
            }
        }
    }
    println!("{rounds} rounds, each with {requests} requests on warm connections");
    println!("| load | generated | by hand | ratio |\n| --- | --- | --- | --- |");
    for comparison in comparisons {
        print!("{comparison}");
    }
    ExitCode::SUCCESS
}

/// Measures each kind of load.
fn measure(pair: &Pair, hosts: &Hosts, requests: usize) -> [Measurement; 3] {
    // Opens the connections between the Envoys.
    pair.measure(hosts, CONNECTIONS, 16);
    let one = pair.measure(hosts, 1, requests);
    let parallel = pair.measure(hosts, CONNECTIONS, requests / CONNECTIONS);
    let new = one.connections + parallel.connections;
    assert!(new < requests / 10, "{new} new connections");
    pair.close_after_responses(hosts, true);
    // Idle connections of the client's Envoy take one more request each.
    pair.measure(hosts, 1, 2 * CONNECTIONS);
    let expected = requests / HANDSHAKE_SHARE;
    let cold = pair.measure(hosts, 1, expected);
    pair.close_after_responses(hosts, false);
    assert!(cold.connections >= expected, "{} connections of {expected}", cold.connections);
    [one, parallel, cold]
}

const ROUNDS: usize = 60;
const REQUESTS: usize = 1_600;
const CONNECTIONS: usize = 16;
/// Requests with a handshake take longer.
const HANDSHAKE_SHARE: usize = 4;
