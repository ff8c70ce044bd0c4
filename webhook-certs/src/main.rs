//! Issues, rotates and publishes the certificates of an admission webhook.

use std::process::ExitCode;

use kube_access::with_causes;
use reason::hint::on_lines;
use webhook_certs::cli;

#[expect(clippy::print_stderr, reason = "the log may be turned off")]
fn main() -> ExitCode {
    let command = cli::Cli::from_process();
    command.log.install(false);
    // Fails only if a provider is installed already, which then applies.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match cli::run(command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", on_lines(&with_causes(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}
