//! The control plane of the mesh.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    pilot_discovery::cli::main(std::env::args_os())
}
