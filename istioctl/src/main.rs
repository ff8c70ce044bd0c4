//! Istio-compatible sidecar injection on files, and reports on the pods of a cluster.

use std::io::{IsTerminal as _, stderr, stdout};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use istioctl::{Streams, Terminal};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // The library takes any value of the variable for a wish.
    let forced = std::env::var_os("CLICOLOR_FORCE").is_none_or(|value| value != "0");
    let terminal = Terminal {
        color_output: AutoStream::choice(&stdout()) != ColorChoice::Never
            && (forced || stdout().is_terminal()),
        color_messages: AutoStream::choice(&stderr()) != ColorChoice::Never
            && (forced || stderr().is_terminal()),
        progress: stderr().is_terminal(),
    };
    let (mut input, mut output) = (std::io::stdin().lock(), stdout().lock());
    let mut messages = stderr().lock();
    let mut streams = Streams::new(&mut input, &mut output, &mut messages);
    streams.terminal = terminal;
    istioctl::run(std::env::args_os(), &mut streams)
}
