//! Folder of a release, and the digests of its files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::content::Content;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::file_tree::FileTree;
use crate::gzip;

/// Files written so far.
pub(super) struct ReleaseFolder {
    path: PathBuf,
    files: BTreeMap<String, Digest>,
}

impl ReleaseFolder {
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path).map_err(Error::write(&path))?;
        Ok(Self { path, files: BTreeMap::new() })
    }

    /// Returns names and digests of the files.
    pub(super) fn files(&self) -> Vec<(String, Digest)> {
        self.files.iter().map(|(name, digest)| (name.clone(), *digest)).collect()
    }

    /// Writes a text.
    pub(super) fn add(&mut self, name: &str, text: String) -> Result<()> {
        self.add_written(name, |path| fs::write(path, text).map_err(Error::write(path)))
    }

    /// Writes a compressed tar archive.
    pub(super) fn add_archive(&mut self, name: &str, files: &FileTree, time: u64) -> Result<()> {
        self.add_written(name, |path| {
            let file = BufWriter::new(File::create(path).map_err(Error::write(path))?);
            let mut encoder = gzip::encoder(file);
            files.write_tar(time, &mut encoder)?;
            let file = encoder.finish().and_then(|mut file| file.flush());
            file.map_err(Error::write(path))
        })
    }

    /// Adds a file that `write` writes.
    pub(super) fn add_written(
        &mut self,
        name: &str,
        write: impl FnOnce(&PathBuf) -> Result<()>,
    ) -> Result<()> {
        let path = self.path.join(name);
        write(&path)?;
        let (digest, _) = Content::File(path).digest()?;
        self.files.insert(name.to_owned(), digest);
        Ok(())
    }

    /// Writes the digests of all files for `sha256sum --check`.
    pub(super) fn write_checksums(mut self) -> Result<()> {
        let mut sums = String::new();
        for (name, digest) in &self.files {
            let _ = writeln!(sums, "{digest}  {name}");
        }
        self.add("SHA256SUMS", sums)
    }
}
