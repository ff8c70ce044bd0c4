//! A directory whose files change together: all of them, or none.
//!
//! The layout is the one in which the kubelet mounts a Secret. The files are symbolic links through
//! `..data`, a link to the directory of the current generation. The next generation is written
//! beside it, and one rename makes it current. So the files belong to one generation at every
//! instant, also if the process is killed.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::directory::{Directory, FileMode, random_name};

/// A locked directory of files that are replaced together.
pub struct FileSet {
    directory: Directory,
    path: PathBuf,
    /// Prefix of the directories of generations, and of links before they are renamed.
    prefix: String,
}

/// A file of a set.
pub struct SetFile<'a> {
    /// Name in the directory.
    pub name: &'static str,
    /// True if only the owner may read it.
    pub is_private: bool,
    /// Content of the file.
    pub text: &'a str,
}

impl FileSet {
    /// Opens and locks a directory; a missing one is created for the caller only.
    ///
    /// `program` becomes part of the names of generations.
    pub fn open(path: &Path, program: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let directory = Directory::open(path)?;
        directory.lock()?;
        Ok(Self { directory, path: path.to_owned(), prefix: format!("..{program}-") })
    }

    /// Returns the users that may write in the directory besides the caller.
    pub fn other_writers(&self) -> io::Result<Option<String>> {
        self.directory.other_writers()
    }

    /// Path of one of the files.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file; `None` if it is missing. A file of another user is an error.
    pub fn read(&self, name: &str) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        self.directory.read_own(name)
    }

    /// Replaces all files.
    pub fn publish(&self, files: &[SetFile<'_>]) -> io::Result<()> {
        let current = self.current()?;
        for leftover in self.directory.names(&self.prefix)? {
            if Some(&leftover) != current.as_ref() {
                self.remove(&leftover, files);
            }
        }
        let superseded = match current {
            Some(current) if self.is_linked(files)? => Some(current),
            current => {
                // Plain files become links to copies of them first.
                let copies = self.write_copies(files)?;
                self.swap(&copies)?;
                for file in files {
                    self.link(&through_data(file.name), file.name)?;
                }
                self.directory.sync()?;
                if let Some(current) = current {
                    self.remove(&current, files);
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

    /// Directory of the current generation; `None` before the first.
    fn current(&self) -> io::Result<Option<String>> {
        self.directory.read_link(DATA)
    }

    fn is_linked(&self, files: &[SetFile<'_>]) -> io::Result<bool> {
        for file in files {
            if self.directory.read_link(file.name)? != Some(through_data(file.name)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_copies(&self, files: &[SetFile<'_>]) -> io::Result<String> {
        self.write_generation(|generation| {
            for file in files {
                // A file of another user must not become the caller's by being copied.
                if let Ok(Some(bytes)) = self.directory.read_own(file.name) {
                    generation.create_file(file.name, mode(file), &[&bytes])?;
                }
            }
            Ok(())
        })
    }

    fn write(&self, files: &[SetFile<'_>]) -> io::Result<String> {
        self.write_generation(|generation| {
            files
                .iter()
                .try_for_each(|file| generation.create_file(file.name, mode(file), &[&file.text]))
        })
    }

    fn write_generation(
        &self,
        fill: impl FnOnce(&Directory) -> io::Result<()>,
    ) -> io::Result<String> {
        let name = random_name(&self.prefix)?;
        let generation = self.directory.create_directory(&name)?;
        fill(&generation)?;
        generation.sync()?;
        Ok(name)
    }

    fn swap(&self, generation: &str) -> io::Result<()> {
        self.directory.sync()?;
        self.link(generation, DATA)?;
        self.directory.sync()
    }

    fn link(&self, target: &str, name: &str) -> io::Result<()> {
        self.directory.replace_link(target, &random_name(&self.prefix)?, name)
    }

    /// Removes a generation, or a link that a killed call did not rename.
    ///
    /// Errors are ignored: leftovers do no harm, and the next call tries again.
    fn remove(&self, leftover: &str, files: &[SetFile<'_>]) {
        if !leftover.starts_with(&self.prefix) || self.directory.remove_file(leftover).is_ok() {
            return;
        }
        if let Ok(generation) = self.directory.open_directory(leftover) {
            for file in files {
                let _ = generation.remove_file(file.name);
            }
            let _ = self.directory.remove_directory(leftover);
        }
    }
}

fn through_data(name: &str) -> String {
    format!("{DATA}/{name}")
}

fn mode(file: &SetFile<'_>) -> FileMode {
    FileMode::Exactly(if file.is_private { 0o600 } else { 0o644 })
}

/// Name of the link in the kubelet's layout (Kubernetes, `AtomicWriter`).
const DATA: &str = "..data";
