//! A mounted Secret of type `kubernetes.io/tls`, updated as the kubelet does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A folder in which `tls.crt` and `tls.key` point through the link `..data` to the latest files,
/// so that both change at once.
#[derive(Debug)]
pub(crate) struct Mount {
    folder: PathBuf,
    generation: u64,
}

impl Mount {
    /// Creates an empty one.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let mount = Self { folder: folder.to_owned(), generation: 0 };
        for name in FILES {
            symlink(Path::new(DATA).join(name), mount.path(name)).context("making a link")?;
        }
        Ok(mount)
    }

    /// Returns the path of one of its files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Replaces the files; the old ones are removed a moment later.
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
