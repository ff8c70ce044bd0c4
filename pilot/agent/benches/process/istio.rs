//! Istio's agent, unpacked from the folder that `ISTIO_PROGRAMS` names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// The unpacked program, removed with the value.
pub(crate) struct IstioAgent {
    program: PathBuf,
    _folder: TempDir,
}

impl IstioAgent {
    pub(crate) fn path(&self) -> &Path {
        &self.program
    }
}

/// Unpacks the program; `None` without `ISTIO_PROGRAMS`.
#[expect(clippy::print_stderr, reason = "the user is told what is left out")]
pub(crate) fn agent() -> Result<Option<IstioAgent>> {
    let Some(programs) = std::env::var_os("ISTIO_PROGRAMS") else {
        eprintln!("LEFT OUT: Istio's agent; ISTIO_PROGRAMS does not name its folder");
        return Ok(None);
    };
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("pilot-agent");
    let packed = Path::new(&programs).join("pilot-agent.zst");
    let unpacked = Command::new("zstd").args(["-dq", "-o"]).arg(&program).arg(&packed).status();
    ensure!(unpacked.context("starting zstd")?.success(), "unpacking {}", packed.display());
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(Some(IstioAgent { program, _folder: folder }))
}
