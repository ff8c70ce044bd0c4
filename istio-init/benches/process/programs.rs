//! Programs under measurement.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The release program, built by `make build`.
pub(crate) fn istio_init() -> Result<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/istio-init");
    program.canonicalize().with_context(|| format!("{}: run `make build` first", program.display()))
}

/// A static program that does nothing, built the same way.
pub(crate) fn empty() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("empty.rs"), folder.join("empty"));
    std::fs::write(&source, "fn main() {}\n")?;
    let mut rustc = Command::new("rustc");
    rustc.args(["-C", "target-feature=+crt-static", "-C", "opt-level=z", "-C", "panic=abort"]);
    rustc.args(["-C", "strip=symbols", "-o"]).arg(&program).arg(&source);
    let output = rustc.output().context("starting rustc")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(program)
}
