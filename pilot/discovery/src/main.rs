//! The control plane of the mesh.

use std::process::ExitCode;

fn main() -> ExitCode {
    pilot_discovery::cli::main(std::env::args_os())
}
