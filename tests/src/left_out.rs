//! Tests that cannot run here, listed at the end of a run.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

use anyhow::{Result, ensure};

/// Records that tests are left out, and why. In CI, where everything must run, that is an error.
///
/// `tests/lanes.sh` sets `LIST` and prints its lines below the number of passed tests: of a test
/// that passes, libtest shows no output.
#[expect(clippy::print_stderr, reason = "a test program has no log")]
pub fn record(what: &str, reason: &str) -> Result<()> {
    ensure!(env::var_os("CI").is_none(), "{what}: {reason}");
    let line = format!("left out: {what}: {reason}");
    eprintln!("{line}");
    if let Some(list) = env::var_os(LIST) {
        // One write, so that lines of processes side by side stay whole.
        let mut list = OpenOptions::new().append(true).create(true).open(list)?;
        list.write_all(format!("{line}\n").as_bytes())?;
    }
    Ok(())
}

/// Variable with the path of the list.
const LIST: &str = "OUTRIGGER_LEFT_OUT";
