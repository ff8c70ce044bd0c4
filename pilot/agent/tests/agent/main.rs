//! The whole program with a real Envoy and a control plane, in network namespaces.
//!
//! The working directory of each agent is a folder with the layout of a container.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics has failed")]

mod captured;
mod changes;
#[path = "../relay/client.rs"]
mod client;
mod control_plane;
mod drains;
mod fixture;
mod foreign_sds;
mod grpc_application;
mod grpc_pod;
#[path = "../status/istio_init.rs"]
mod istio_init;
mod kills;
mod layouts;
#[path = "../supervision/load.rs"]
mod load;
mod outage;
mod restarts;
mod sds_server;
mod slow_requests;
mod starts;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of a test is waiting.
    arguments.test_threads.get_or_insert(4);
    let tests = [
        restarts::TESTS,
        kills::TESTS,
        drains::TESTS,
        starts::TESTS,
        outage::TESTS,
        changes::TESTS,
        foreign_sds::TESTS,
        grpc_application::TESTS,
        layouts::TESTS,
        captured::TESTS,
    ]
    .concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || test().map_err(|error| format!("{error:#}").into()))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Name and function of a test.
type Test = (&'static str, fn() -> anyhow::Result<()>);

/// Returns an array of tests, named as their functions.
#[macro_export]
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[$crate::Test] = &[$((stringify!($test), $test)),+];
    };
}
