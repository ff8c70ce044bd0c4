//! The mutating admission webhook that adds sidecars to pods.

use std::process::ExitCode;

use injector::webhook;
use injector::webhook::config::args::Args;
use mimalloc::MiMalloc;
use reason::hint::on_lines;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[expect(clippy::print_stderr, reason = "the log may be turned off")]
fn main() -> ExitCode {
    // With huge pages, each thread's few kilobytes would occupy a whole huge page. The allocator is
    // built not to request them, but some nodes grant them by default. If the kernel rejects the
    // call, the process needs more memory but runs.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("error: another TLS provider is installed already");
        return ExitCode::FAILURE;
    }
    match webhook::run(&Args::from_process()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", on_lines(&error.to_string()));
            ExitCode::from(error.exit_code())
        }
    }
}
