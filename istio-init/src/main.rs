//! Programs Istio's traffic capture in the network namespace it runs in.

use std::process::ExitCode;

fn main() -> ExitCode {
    istio_init::cli::main(std::env::args_os(), std::env::vars_os())
}
