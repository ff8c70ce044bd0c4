//! Errors of packaging.

use std::io;
use std::path::{Path, PathBuf};

use crate::platform::Platform;

/// An operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("writing {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Content could not be packed.
    #[error("packing {what}")]
    Pack {
        /// The archive or its member.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// A program of cargo or Debian failed.
    #[error("{command} failed: {message}")]
    Command {
        /// The command line.
        command: String,
        /// Its standard error, or the reason for which it did not start.
        message: String,
    },
    /// The output of a command is not as expected.
    #[error("the output of {command} is not as expected: {problem}")]
    Output {
        /// The command line.
        command: String,
        /// The problem.
        problem: String,
    },
    /// A file is not an ELF program.
    #[error("{} is not a program", path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: goblin::error::Error,
    },
    /// A program is built for another platform.
    #[error("{} is not built for {platform}; hint: build it for {}", path.display(), platform.rust_target())]
    OtherPlatform {
        /// The program.
        path: PathBuf,
        /// The expected platform.
        platform: Platform,
    },
    /// A shared library of a program is not installed.
    #[error("{} needs {library}, which is in none of {}", program.display(), searched.join(", "))]
    NoLibrary {
        /// The program.
        program: PathBuf,
        /// The library.
        library: String,
        /// The folders searched.
        searched: Vec<String>,
    },
    /// The changelog has no section of a version.
    #[error("{} has no section `## [{version}]`; hint: rename [Unreleased] when you release", changelog.display())]
    NoSection {
        /// The changelog.
        changelog: PathBuf,
        /// The version.
        version: String,
    },
    /// The machine has no root certificates.
    #[error("{} does not exist; hint: apt-get install ca-certificates", .0.display())]
    NoCertificates(PathBuf),
    /// `Cargo.lock` and the dependency tree do not fit together.
    #[error("cargo metadata has no package {0}")]
    UnknownPackage(String),
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    pub(crate) fn pack(what: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Pack { what: what.to_owned(), source }
    }
}

/// Result of packaging.
pub type Result<T, E = Error> = std::result::Result<T, E>;
