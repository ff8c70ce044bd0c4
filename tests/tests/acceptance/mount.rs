//! A mounted Secret of type `kubernetes.io/tls`, changed as the kubelet changes one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A folder in which `tls.crt` and `tls.key` lead through the link `..data` to what was written
/// last, both at once.
#[derive(Debug)]
pub(crate) struct Mount {
    folder: PathBuf,
    generation: u64,
}

impl Mount {
    /// Makes an empty one.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let mount = Self { folder: folder.to_owned(), generation: 0 };
        for name in FILES {
            symlink(Path::new(DATA).join(name), mount.path(name)).context("making a link")?;
        }
        Ok(mount)
    }

    /// Where a file of it is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Puts other files in the place of those that are there; those are gone a moment later.
    pub(crate) fn swap(&mut self, certificate: &str, key: &str) -> Result<()> {
        let before = self.generation_folder();
        self.generation += 1;
        let folder = self.generation_folder();
        let swapped = || -> std::io::Result<()> {
            fs::create_dir(&folder)?;
            for (name, content) in FILES.into_iter().zip([certificate, key]) {
                fs::write(folder.join(name), content)?;
            }
            let link = self.path("..data_tmp");
            symlink(folder.file_name().unwrap_or_default(), &link)?;
            fs::rename(link, self.path(DATA))?;
            if before.exists() { fs::remove_dir_all(before) } else { Ok(()) }
        };
        swapped().with_context(|| format!("writing {}", folder.display()))
    }

    fn generation_folder(&self) -> PathBuf {
        self.path(&format!("..{}", self.generation))
    }
}

const FILES: [&str; 2] = ["tls.crt", "tls.key"];
const DATA: &str = "..data";
