//! Istio-compatible sidecar injection on files, and reports on the pods of a cluster.

use std::io::{IsTerminal as _, stderr, stdout};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use istioctl::{Streams, Terminal};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let terminal = Terminal {
        color_output: AutoStream::choice(&stdout()) != ColorChoice::Never,
        color_messages: AutoStream::choice(&stderr()) != ColorChoice::Never,
        progress: stderr().is_terminal(),
    };
    let (mut input, mut output) = (std::io::stdin().lock(), stdout().lock());
    let mut messages = stderr().lock();
    let mut streams = Streams::new(&mut input, &mut output, &mut messages);
    streams.terminal = terminal;
    istioctl::run(std::env::args_os(), &mut streams)
}
