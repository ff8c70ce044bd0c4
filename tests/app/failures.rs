//! Failures of the application: one file for each, so that a new container is healthy.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};

/// The folder of the files.
#[derive(Clone, Debug)]
pub(crate) struct Failures(Arc<PathBuf>);

impl Failures {
    pub(crate) fn create(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self(Arc::new(folder)))
    }

    /// True if a file of this name exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        !name.is_empty() && self.0.join(name).exists()
    }
}
