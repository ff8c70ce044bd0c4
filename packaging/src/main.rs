//! Packages the release programs: `make dist` and `make images` call it.

mod cli;

use std::process::ExitCode;

use clap::Parser;

#[expect(clippy::print_stderr, reason = "talk of a program without a log")]
fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("packaging: {error:#}");
            ExitCode::FAILURE
        }
    }
}
