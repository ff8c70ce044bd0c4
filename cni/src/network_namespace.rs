//! Network namespace of the pod.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thiserror::Error;

/// Error of entering a network namespace.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// The file cannot be opened or examined.
    #[error("{0}")]
    Open(#[source] io::Error),
    /// The file is something else.
    #[error("is not a namespace")]
    NotANamespace,
    /// The file is the namespace of this thread.
    #[error("is the network namespace of the node")]
    OfTheNode,
    /// The namespace of this thread is unknown.
    #[error("{OWN}: {0}")]
    Own(#[source] io::Error),
    /// The kernel rejects the move.
    #[error("setns: {0}")]
    Enter(#[source] io::Error),
}

impl NamespaceError {
    /// Returns what the user can do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OfTheNode => {
                Some("the traffic of a pod with the node's network cannot be captured")
            }
            Self::Enter(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Some("entering it needs CAP_SYS_ADMIN")
            }
            Self::Open(_) | Self::NotANamespace | Self::Enter(_) => {
                Some("the runtime has to pass the path of the pod's network namespace")
            }
            Self::Own(_) => Some("the plugin needs /proc"),
        }
    }
}

/// Moves the calling thread into the network namespace of the file.
///
/// Rejects a file that is no namespace, and the namespace of this thread.
pub fn enter(path: &Path) -> Result<(), NamespaceError> {
    // Without NONBLOCK, opening a pipe waits for a writer.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path).map_err(NamespaceError::Open)?;
    let system = rustix::fs::fstatfs(&file).map_err(|errno| NamespaceError::Open(errno.into()))?;
    if system.f_type != NSFS_MAGIC {
        return Err(NamespaceError::NotANamespace);
    }
    let own = fs::metadata(OWN).map_err(NamespaceError::Own)?;
    let given = file.metadata().map_err(NamespaceError::Open)?;
    if (own.st_dev(), own.st_ino()) == (given.st_dev(), given.st_ino()) {
        return Err(NamespaceError::OfTheNode);
    }
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|errno| NamespaceError::Enter(errno.into()))
}

const OWN: &str = "/proc/thread-self/ns/net";
/// `NSFS_MAGIC` of `include/uapi/linux/magic.h`.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;
