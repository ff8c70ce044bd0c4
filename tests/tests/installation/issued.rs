//! Certificates of another issuer.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::fixture::Fixture;

/// A CA of its own, and a leaf: `ca.crt`, `tls.crt` and `tls.key` in PEM.
pub(crate) struct Issued {
    folder: TempDir,
}

impl Issued {
    /// Issues them for a name with this lifetime.
    pub(crate) fn new(fixture: &Fixture, name: &str, lifetime: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("making a folder")?;
        let issued = Command::new(fixture.programs.own("webhook-certs")?)
            .args(["issue", "--dns", name, "--lifetime", lifetime, "--out"])
            .arg(folder.path())
            .output()
            .context("starting webhook-certs")?;
        ensure!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
        Ok(Self { folder })
    }

    /// Returns the path of one of the files; the caller may add others.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Returns the content of one of the files.
    pub(crate) fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.path(file)).with_context(|| format!("reading {file}"))
    }
}
