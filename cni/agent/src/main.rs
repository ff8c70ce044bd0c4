//! The node agent `install-cni`.

use std::process::ExitCode;

fn main() -> ExitCode {
    install_cni::cli::main(std::env::args_os())
}
