//! The agent beside Envoy in an injected pod.

use std::process::ExitCode;

fn main() -> ExitCode {
    pilot_agent::cli::main(std::env::args_os(), std::env::vars_os())
}
