//! Container image of one platform: files and configuration.

use std::fmt;
use std::path::Path;

use crate::elf::shared_libraries;
use crate::error::Result;
use crate::file_tree::FileTree;
use crate::platform::Platform;

/// Repository and tag of an image, as `localhost/outrigger/istio-init:0.1.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    repository: String,
    tag: String,
}

impl ImageName {
    /// Returns the name of an image in a repository.
    pub fn new(repository: &str, tag: &str) -> Self {
        Self { repository: repository.to_owned(), tag: tag.to_owned() }
    }

    /// Returns the tag.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the last part of the repository.
    pub fn title(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

/// Content and configuration of an image.
#[derive(Debug, Clone)]
pub struct Image {
    pub(crate) name: ImageName,
    pub(crate) platform: Platform,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) user: u32,
    pub(crate) files: FileTree,
}

impl Image {
    /// Returns an image without files, run by root.
    pub fn new(name: ImageName, platform: Platform, entrypoint: &[&str]) -> Self {
        let entrypoint = entrypoint.iter().map(|word| (*word).to_owned()).collect();
        Self { name, platform, entrypoint, user: 0, files: FileTree::default() }
    }

    /// Returns the full name.
    pub fn name(&self) -> &ImageName {
        &self.name
    }

    /// Sets the user.
    #[must_use]
    pub fn user(mut self, user: u32) -> Self {
        self.user = user;
        self
    }

    /// Adds a file of this machine, executable if it is so here.
    pub fn file(mut self, at: &str, from: &Path) -> Result<Self> {
        self.files.add_file(at, from)?;
        Ok(self)
    }

    /// Adds a program, and the shared libraries that it needs.
    pub fn program(mut self, at: &str, from: &Path) -> Result<Self> {
        for (library_at, library) in shared_libraries(from, self.platform)? {
            self.files.add_file(&library_at, &library)?;
        }
        self.file(at, from)
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn link(mut self, at: &str, to: &str) -> Self {
        self.files.add_link(at, to);
        self
    }
}
