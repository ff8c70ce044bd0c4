//! Changes in folders, by inotify.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Watch of folders.
#[derive(Debug)]
pub struct FolderWatch {
    inotify: AsyncFd<OwnedFd>,
}

impl FolderWatch {
    /// Creates a watch of no folder.
    #[expect(deprecated, reason = "an OwnedFd is one descriptor; its successor is unsafe")]
    pub fn new() -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self { inotify: AsyncFd::new(inotify)? })
    }

    /// Adds a folder. Adding it again changes nothing, unless another folder has its path now.
    pub fn add(&self, folder: &Path) -> io::Result<()> {
        let changes = WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MODIFY
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.inotify, folder, changes)?;
        Ok(())
    }

    /// Waits for a change since the last call, and forgets all changes up to now.
    pub async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = Reader::new(&self.inotify, &mut buffer);
            let mut events = 0;
            loop {
                match reader.next() {
                    Ok(_) => events += 1,
                    Err(rustix::io::Errno::WOULDBLOCK) => break,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            ready.clear_ready();
            if events > 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn changes_are_reported_until_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let watch = FolderWatch::new().unwrap();
        watch.add(folder.path()).unwrap();
        for name in ["a", "b"] {
            fs::write(folder.path().join(name), "x").unwrap();
            fs::rename(folder.path().join(name), folder.path().join("c")).unwrap();
            timeout(Duration::from_secs(10), watch.changed()).await.unwrap().unwrap();
        }
        fs::set_permissions(folder.path().join("c"), fs::Permissions::from_mode(0o000)).unwrap();
        timeout(Duration::from_secs(10), watch.changed()).await.unwrap().unwrap();
        let quiet = timeout(Duration::from_millis(1), watch.changed()).await;
        assert!(quiet.is_err(), "no change since");
        assert!(watch.add(&folder.path().join("missing")).is_err());
    }
}
