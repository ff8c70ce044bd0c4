//! Configuration from files.
//!
//! The files are read and compared at an interval. A watch on the paths would miss updates of a
//! mounted `ConfigMap`, because the kubelet swaps the symbolic link `..data` beside the files.

use std::io;
use std::path::{Path, PathBuf};

use super::{Text, Texts};

/// Configuration files; an absent one has the built-in default.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Files {
    /// File with the document `config`.
    pub inject_config: Option<PathBuf>,
    /// File with the document `values`.
    pub values: Option<PathBuf>,
    /// File with the document `mesh`.
    pub mesh_config: Option<PathBuf>,
}

impl Files {
    /// Reads all files, each by `text_of`. The files of one mounted `ConfigMap` come from the same
    /// version of it.
    pub fn read(&self, text_of: impl Fn(&Path) -> io::Result<String>) -> Result<Texts, FileError> {
        let read = |flag, path: Option<&Path>| path.map(|it| read(flag, it, &text_of)).transpose();
        loop {
            let before = self.versions();
            let texts = Texts {
                inject_config: read("--injectConfigFile", self.inject_config.as_deref())?,
                values: read("--valuesFile", self.values.as_deref())?,
                mesh_config: read("--meshConfigFile", self.mesh_config.as_deref())?,
            };
            if self.versions() == before {
                return Ok(texts);
            }
        }
    }

    /// Returns the targets of the `..data` links beside the files.
    fn versions(&self) -> [Option<PathBuf>; 3] {
        [&self.inject_config, &self.values, &self.mesh_config].map(|path| {
            let directory = path.as_deref()?.parent()?;
            std::fs::read_link(directory.join(DATA)).ok()
        })
    }
}

/// Error while reading a file.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {}: {source}", path.display())]
pub struct FileError {
    /// Flag that names the file.
    pub flag: &'static str,
    /// Path as given.
    pub path: PathBuf,
    /// Cause.
    pub source: io::Error,
}

fn read(
    flag: &'static str,
    path: &Path,
    text_of: impl Fn(&Path) -> io::Result<String>,
) -> Result<Text, FileError> {
    let text = text_of(path).map_err(|source| FileError { flag, path: path.to_owned(), source })?;
    Ok(Text { source: format!("{flag} {}", path.display()), text })
}

/// Link by which the kubelet publishes all files of a mounted volume at once.
const DATA: &str = "..data";
