//! Istio-compatible sidecar injection on files.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    istioctl::run(
        std::env::args_os(),
        &mut istioctl::Streams {
            input: &mut std::io::stdin().lock(),
            output: &mut std::io::stdout().lock(),
            messages: &mut std::io::stderr().lock(),
        },
    )
}
