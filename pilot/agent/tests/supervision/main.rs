//! Supervision of a real Envoy: hot restarts under load, kills at every step, shutdown.
//!
//! Each test has a network namespace of its own, and an agent as a process of its own: this program
//! with the argument `supervise`.

mod agent;
mod fixture;
mod kills;
mod load;
mod restarts;
mod shutdown;
mod starts;

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == "supervise") {
        let folder = arguments.next().unwrap_or_default();
        return agent::supervise(folder.as_ref());
    }
    let mut arguments = Arguments::from_args();
    // Most of a test is waiting.
    arguments.test_threads.get_or_insert(4);
    let tests = [restarts::TESTS, starts::TESTS, kills::TESTS, shutdown::TESTS].concat();
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::test(name, move || test().map_err(|error| format!("{error:#}").into()))
    });
    Ok(libtest_mimic::run(&arguments, trials.collect()).exit_code())
}

/// Name and function of a test.
type Test = (&'static str, fn() -> Result<()>);

/// Returns an array of tests, named as their functions.
#[macro_export]
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[$crate::Test] = &[$((stringify!($test), $test)),+];
    };
}
