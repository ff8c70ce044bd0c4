//! The CNI plugin `istio-cni`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A runtime passes no arguments.
    if program_version::as_flag(std::env::args_os()).get(1).is_some_and(|word| word == "--version")
    {
        return cni::plugin::print_version(std::io::stdout());
    }
    cni::plugin::main(std::env::vars_os(), std::io::stdin(), std::io::stdout())
}
