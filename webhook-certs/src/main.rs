//! Issues and keeps up the certificates of an admission webhook.

mod cli;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use webhook_certs::cause::with_causes;

#[expect(clippy::print_stderr, reason = "the log may be turned off")]
fn main() -> ExitCode {
    let command = cli::Cli::parse();
    tracing_subscriber::fmt()
        .with_env_filter(command.log_filter())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    // Fails only where a provider is installed already, which is then the one to use.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match cli::run(command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {}", with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
