//! A directory whose files change together: all of them, or none.
//!
//! The layout is the one in which the kubelet mounts a Secret. The files are symbolic links through
//! `..data`, a link to the directory of the present generation; the next generation is written
//! beside it, and one rename makes it the present one. There is no instant, and so no end of the
//! process, at which the names stand for files of two generations.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::exclusive::{Directory, FileMode, random_name};

/// A directory that no other process writes in this way as long as this value lives.
pub struct CertificateDirectory {
    directory: Directory,
    path: PathBuf,
}

/// A file of a set.
pub struct PemFile<'a> {
    /// Its name in the directory.
    pub name: &'static str,
    /// True if the owner alone may read it.
    pub is_private: bool,
    /// Its content.
    pub text: &'a str,
}

impl CertificateDirectory {
    /// Opens a directory, and creates it for the caller alone where it is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let directory = Directory::open(path)?;
        directory.lock()?;
        Ok(Self { directory, path: path.to_owned() })
    }

    /// Tells who may write in the directory besides the caller, and so exchange what is in it.
    pub fn other_writers(&self) -> io::Result<Option<String>> {
        self.directory.other_writers()
    }

    /// The path of one of its files.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file; `None` where there is none. Another user's is an error.
    pub fn read(&self, name: &str) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        self.directory.read_own(name)
    }

    /// Replaces the whole set.
    pub fn publish(&self, files: &[PemFile<'_>]) -> io::Result<()> {
        let present = self.present()?;
        for left in self.directory.names(PREFIX)? {
            if Some(&left) != present.as_ref() {
                self.remove(&left, files);
            }
        }
        let superseded = match present {
            Some(present) if self.is_linked(files)? => Some(present),
            present => {
                // Files that are no links yet become links to copies of them.
                let copies = self.write_copies(files)?;
                self.swap(&copies)?;
                for file in files {
                    self.link(&through_data(file.name), file.name)?;
                }
                self.directory.sync()?;
                if let Some(present) = present {
                    self.remove(&present, files);
                }
                Some(copies)
            }
        };
        let new = self.write(files)?;
        self.swap(&new)?;
        if let Some(superseded) = superseded {
            self.remove(&superseded, files);
        }
        Ok(())
    }

    /// The directory of the present generation, of which there is none at first.
    fn present(&self) -> io::Result<Option<String>> {
        self.directory.read_link(DATA)
    }

    fn is_linked(&self, files: &[PemFile<'_>]) -> io::Result<bool> {
        for file in files {
            if self.directory.read_link(file.name)? != Some(through_data(file.name)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_copies(&self, files: &[PemFile<'_>]) -> io::Result<String> {
        let name = random_name(PREFIX)?;
        let generation = self.directory.create_directory(&name)?;
        for file in files {
            // What is not the caller's does not become it by being copied.
            if let Ok(Some(bytes)) = self.directory.read_own(file.name) {
                generation.create_file(file.name, mode(file), &[&bytes])?;
            }
        }
        generation.sync()?;
        Ok(name)
    }

    fn write(&self, files: &[PemFile<'_>]) -> io::Result<String> {
        let name = random_name(PREFIX)?;
        let generation = self.directory.create_directory(&name)?;
        for file in files {
            generation.create_file(file.name, mode(file), &[&file.text])?;
        }
        generation.sync()?;
        Ok(name)
    }

    fn swap(&self, generation: &str) -> io::Result<()> {
        self.directory.sync()?;
        self.link(generation, DATA)?;
        self.directory.sync()
    }

    fn link(&self, target: &str, name: &str) -> io::Result<()> {
        self.directory.replace_link(target, &random_name(PREFIX)?, name)
    }

    /// Removes a generation, or a link that an earlier call did not come to rename.
    ///
    /// Errors count for nothing: it harms no caller, and the next call tries again.
    fn remove(&self, left: &str, files: &[PemFile<'_>]) {
        if !left.starts_with(PREFIX) || self.directory.remove_file(left).is_ok() {
            return;
        }
        if let Ok(generation) = self.directory.open_directory(left) {
            for file in files {
                let _ = generation.remove_file(file.name);
            }
            let _ = self.directory.remove_directory(left);
        }
    }
}

fn through_data(name: &str) -> String {
    format!("{DATA}/{name}")
}

fn mode(file: &PemFile<'_>) -> FileMode {
    FileMode::Exactly(if file.is_private { 0o600 } else { 0o644 })
}

/// The kubelet's name for it (Kubernetes, `AtomicWriter`).
const DATA: &str = "..data";
/// Prefix of the directories of generations, and of links that have not got their name yet.
const PREFIX: &str = "..webhook-certs-";
