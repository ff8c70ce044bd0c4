//! The CNI plugin `istio-cni`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cni::plugin::main(std::env::vars_os(), std::io::stdin(), std::io::stdout())
}
