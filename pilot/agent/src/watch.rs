//! Watches of mounted files.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

/// Calls `changed` after each change of one of these files since the call, while it is polled.
///
/// Files are polled, as the kubelet replaces mounted files by links. Changes in quick succession
/// are one change: it is reported when the files stay equal for an interval. A file that is absent
/// may appear later.
pub fn watch(
    files: Vec<PathBuf>,
    interval: Duration,
    mut changed: impl FnMut(),
) -> impl Future<Output = Infallible> {
    let mut reported = versions(&files);
    let mut last = reported.clone();
    async move {
        loop {
            sleep(interval).await;
            let current = versions(&files);
            if current == last && current != reported {
                reported = current;
                changed();
            } else {
                last = current;
            }
        }
    }
}

/// Version of a file behind its links, without reading its content.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Version {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

impl Version {
    fn read(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            size: metadata.size(),
        })
    }
}

fn versions(files: &[PathBuf]) -> Vec<Option<Version>> {
    files.iter().map(|path| Version::read(path)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(20);

    fn start(file: &Path) -> mpsc::UnboundedReceiver<()> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let files = vec![file.to_owned()];
        let changed = move || sender.send(()).unwrap();
        tokio::spawn(watch(files, INTERVAL, changed));
        receiver
    }

    #[tokio::test]
    async fn swapped_mount_is_one_change() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path();
        for (generation, text) in [("..1", "a"), ("..2", "b")] {
            fs::create_dir(mount.join(generation)).unwrap();
            fs::write(mount.join(generation).join("annotations"), text).unwrap();
        }
        symlink("..1", mount.join("..data")).unwrap();
        symlink("..data/annotations", mount.join("annotations")).unwrap();
        let mut changes = start(&mount.join("annotations"));
        tokio::task::yield_now().await;
        symlink("..2", mount.join("..tmp")).unwrap();
        fs::rename(mount.join("..tmp"), mount.join("..data")).unwrap();
        timeout(Duration::from_secs(10), changes.recv()).await.unwrap();
        assert!(timeout(INTERVAL * 5, changes.recv()).await.is_err());
    }

    #[tokio::test]
    async fn file_that_appears_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("custom_bootstrap.json");
        let mut changes = start(&file);
        tokio::task::yield_now().await;
        fs::write(&file, "{}").unwrap();
        timeout(Duration::from_secs(10), changes.recv()).await.unwrap();
    }
}
