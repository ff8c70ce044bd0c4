//! Configuration from files.
//!
//! The bytes are compared at an interval. A watch of the paths would miss the way in which the
//! kubelet replaces a mounted `ConfigMap`: it swaps the symbolic link `..data` beside them.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Configuration, Text, Texts};

/// The files that were named; for each that was not, the built-in default counts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Files {
    /// The document `config`.
    pub inject_config: Option<PathBuf>,
    /// The document `values`.
    pub values: Option<PathBuf>,
    /// The document `mesh`.
    pub mesh_config: Option<PathBuf>,
}

impl Files {
    /// Reads all files. Those of one mounted `ConfigMap` come from the same version of it.
    pub fn read(&self) -> Result<Texts, FileError> {
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

    /// Offers the files to `configuration` whenever their bytes change from `texts`, for ever.
    pub async fn watch(
        self,
        mut texts: Texts,
        configuration: Arc<Configuration>,
        every: Duration,
    ) -> Infallible {
        let mut unreadable = false;
        loop {
            tokio::time::sleep(every).await;
            match self.settled().await {
                Ok(read) if read == texts => unreadable = false,
                Ok(read) => {
                    unreadable = false;
                    texts = read;
                    // Refusals are logged where they are decided; the last good settings stay.
                    let _ = configuration.offer(&texts);
                }
                // Said once, not at every interval.
                Err(error) if !unreadable => {
                    unreadable = true;
                    configuration.refuse(&error);
                }
                Err(_) => {}
            }
        }
    }

    /// Reads until two readings agree, so that a file which is being written is not taken half.
    async fn settled(&self) -> Result<Texts, FileError> {
        let mut last = self.read()?;
        loop {
            tokio::time::sleep(SETTLE).await;
            let read = self.read()?;
            if read == last {
                return Ok(read);
            }
            last = read;
        }
    }

    /// What the `..data` links beside the files point to.
    fn versions(&self) -> [Option<PathBuf>; 3] {
        [&self.inject_config, &self.values, &self.mesh_config].map(|path| {
            let directory = path.as_deref()?.parent()?;
            std::fs::read_link(directory.join(DATA)).ok()
        })
    }
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {}: {source}", path.display())]
pub struct FileError {
    /// The flag that names the file.
    pub flag: &'static str,
    /// The file as it was named.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

fn read(flag: &'static str, path: Option<&Path>) -> Result<Option<Text>, FileError> {
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|source| FileError {
        flag,
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(Text { source: format!("{flag} {}", path.display()), text }))
}

/// The link by which the kubelet publishes all files of a mounted volume at once.
const DATA: &str = "..data";

/// How long a file that changed has to stay the same.
const SETTLE: Duration = Duration::from_millis(50);
