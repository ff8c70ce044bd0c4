//! Bootstrap files, one per epoch.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use local_files::remove_if_present;
use serde_json::Value;

/// Folder of bootstrap files.
#[derive(Clone, Debug)]
pub(super) struct BootstrapFiles {
    folder: PathBuf,
}

impl BootstrapFiles {
    /// Removes files that a killed agent left behind.
    pub(super) fn new(folder: &Path) -> Self {
        let leftovers = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in leftovers.filter(|entry| is_bootstrap(&entry.file_name())) {
            remove(&entry.path());
        }
        Self { folder: folder.to_owned() }
    }

    /// Writes the file of an epoch, readable by the owner only.
    pub(super) fn write(&self, epoch: u32, bootstrap: &Value) -> io::Result<PathBuf> {
        self.write_file(self.path(epoch), bootstrap)
    }

    /// Writes the file for a validation.
    pub(super) fn write_candidate(&self, bootstrap: &Value) -> io::Result<PathBuf> {
        self.write_file(self.folder.join(format!("{PREFIX}-candidate{SUFFIX}")), bootstrap)
    }

    pub(super) fn remove(&self, epoch: u32) {
        remove(&self.path(epoch));
    }

    fn write_file(&self, path: PathBuf, bootstrap: &Value) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.folder)?;
        // A file that exists would keep its permissions.
        remove(&path);
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        // Not synced: a file is only read by the process that starts next.
        let written = file.write_all(&serde_json::to_vec(bootstrap)?);
        if written.is_err() {
            remove(&path);
        }
        written.map(|()| path)
    }

    fn path(&self, epoch: u32) -> PathBuf {
        self.folder.join(format!("{PREFIX}{epoch}{SUFFIX}"))
    }
}

pub(super) fn remove(path: &Path) {
    if let Err(error) = remove_if_present(path) {
        tracing::warn!("removing {}: {error}", path.display());
    }
}

fn is_bootstrap(name: &OsStr) -> bool {
    let name = name.to_str().unwrap_or_default();
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

const PREFIX: &str = "envoy-rev";
const SUFFIX: &str = ".json";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn bootstrap_is_private_and_leftovers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let names = || -> Vec<_> {
            let entries = fs::read_dir(folder.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let files = BootstrapFiles::new(folder.path());
        let path = files.write(3, &json!({"admin": {}})).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(), ["envoy-rev3.json"]);
        fs::write(folder.path().join("XDS"), "").unwrap();
        BootstrapFiles::new(folder.path());
        assert_eq!(names(), ["XDS"]);
    }
}
