//! Entry into the network namespace of a pod.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::answer::{CniError, Code};

/// Moves the calling thread into the network namespace of the file.
///
/// Rejects a file that is no namespace, and the namespace of this process.
pub fn enter(path: &Path) -> Result<(), CniError> {
    let rejected = |what: String| {
        let message = format!("CNI_NETNS {}: {what}", path.display());
        CniError::new(Code::NetworkNamespace, message)
    };
    let file = File::open(path).map_err(|error| rejected(error.to_string()))?;
    let kind = rustix::fs::fstatfs(&file).map_err(|errno| rejected(errno.to_string()))?.f_type;
    if kind != NSFS_MAGIC {
        return Err(rejected("is not a namespace".to_owned()));
    }
    let own = fs::metadata(OWN).map_err(|error| rejected(format!("{OWN}: {error}")))?;
    let given = file.metadata().map_err(|error| rejected(error.to_string()))?;
    if (own.st_dev(), own.st_ino()) == (given.st_dev(), given.st_ino()) {
        return Err(rejected("is the network namespace of the node".to_owned())
            .hint("the traffic of a pod with the node's network cannot be captured"));
    }
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|errno| rejected(format!("setns: {errno}")).hint("the plugin needs CAP_SYS_ADMIN"))
}

const OWN: &str = "/proc/thread-self/ns/net";
/// `NSFS_MAGIC` of `include/uapi/linux/magic.h`.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;
