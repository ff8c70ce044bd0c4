//! Safe replacement of one file.
//!
//! A new file gets a random name, is created exclusively, synced, and renamed over the old one.
//! Names are resolved from an open directory, so exchanging the directory meanwhile has no effect.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::directory::{Directory, FileMode, foreign, is_own, random_name, write_parts};

/// Replaces the content of one file; readers see the old content or the whole new one.
///
/// An existing file keeps its permissions and, if the caller may give files away, its owner. A file
/// that another user has put into a directory of a third user does not; it and new files get `mode`
/// before the umask.
///
/// Symbolic links of the caller or of root are followed and stay; those of other users are an
/// error. Devices, and pipes of the caller or of root, are written to.
pub fn replace_file(path: &Path, mode: u32, parts: &[impl AsRef<[u8]>]) -> io::Result<()> {
    let path = resolved(path)?;
    let existing = fs::metadata(&path).ok();
    if let Some(existing) = existing.as_ref().filter(|existing| !existing.is_file()) {
        if existing.file_type().is_fifo() && !is_own(existing.uid()) {
            return Err(foreign("a pipe", existing.uid()));
        }
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
        return write_parts(options.open(&path)?, parts).map(drop);
    }
    write_beside(&path, existing, FileMode::BeforeUmask(mode), parts)?.publish()
}

/// Replaces the content of one regular file, as [`replace_file`] does. A device or a pipe, whose
/// reader might not read, is an error.
pub fn replace_regular_file(path: &Path, mode: u32, parts: &[impl AsRef<[u8]>]) -> io::Result<()> {
    NewContent::write(path, mode, parts)?.publish()
}

/// Puts a new file in the place of a regular file, or of a symbolic link, whose target stays as it is.
/// The file is the caller's, and has exactly this mode.
pub fn replace_by_own(path: &Path, mode: u32, parts: &[impl AsRef<[u8]>]) -> io::Result<()> {
    let existing = fs::symlink_metadata(path).ok().filter(|existing| !existing.is_symlink());
    if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
        return Err(io::Error::other(IRREGULAR));
    }
    write_beside(path, None, FileMode::Exactly(mode), parts)?.publish()
}

/// Removes a file; one that is gone already is no error.
pub fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// New content of a regular file, in a file beside it. Dropped, it is removed.
pub struct NewContent {
    directory: Directory,
    /// Name of the file with the new content; `None` once it has the other one.
    new: Option<String>,
    name: String,
}

impl NewContent {
    /// Writes the content. The file itself changes with [`NewContent::publish`], so of several files
    /// none changes if one cannot be written.
    pub fn write(path: &Path, mode: u32, parts: &[impl AsRef<[u8]>]) -> io::Result<Self> {
        let path = resolved(path)?;
        let existing = fs::metadata(&path).ok();
        if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
            return Err(io::Error::other(IRREGULAR));
        }
        write_beside(&path, existing, FileMode::BeforeUmask(mode), parts)
    }

    /// Replaces the file.
    pub fn publish(mut self) -> io::Result<()> {
        if let Some(new) = &self.new {
            self.directory.rename(new, &self.name)?;
        }
        self.new = None;
        self.directory.sync()
    }
}

impl Drop for NewContent {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            // An error before is the one to report.
            let _ = self.directory.remove_file(new);
        }
    }
}

fn write_beside(
    path: &Path,
    existing: Option<fs::Metadata>,
    new_mode: FileMode,
    parts: &[impl AsRef<[u8]>],
) -> io::Result<NewContent> {
    let name = path.file_name().ok_or(Errno::ISDIR)?.to_string_lossy().into_owned();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = Directory::open(parent.unwrap_or(Path::new(".")))?;
    let owner = directory.owner()?;
    let existing = existing.filter(|existing| is_own(existing.uid()) || existing.uid() == owner);
    let mode = match &existing {
        Some(existing) => FileMode::Exactly(existing.mode() & 0o7777),
        None => new_mode,
    };
    let new = random_name(".outrigger-")?;
    let content = NewContent { directory, new: Some(new.clone()), name };
    content.directory.create_file(&new, mode, parts)?;
    if let Some(existing) = existing {
        content.directory.give(&new, &existing)?;
    }
    Ok(content)
}

/// Follows symbolic links at the last component.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let link = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => metadata,
            _ => return Ok(path),
        };
        if !is_own(link.uid()) {
            return Err(foreign("a symbolic link", link.uid()));
        }
        // Links in /proc stand for open files; their text is no path.
        if fs::metadata(&path).is_ok_and(|target| !target.is_file()) {
            return Ok(path);
        }
        let target = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(Errno::LOOP.into())
}

const IRREGULAR: &str = "not a regular file";
/// Linux follows the same number.
const LINKS: usize = 40;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use rustix::fs::Mode;
    use rustix::process::geteuid;

    use super::*;
    use crate::skipped_tests;

    const NEW: u32 = 0o644;
    const OTHER_USER: u32 = 65_432;

    #[test]
    fn replaced_file_keeps_permissions_and_link() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        replace_file(&link, NEW, &[b"new"]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        // A dangling link.
        symlink("later", directory.path().join("dangling")).unwrap();
        replace_file(&directory.path().join("dangling"), NEW, &[b"new"]).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("later")).unwrap(), "new");
    }

    #[test]
    fn new_content_replaces_the_file_only_when_it_is_published() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "old").unwrap();
        for (is_published, text) in [(false, "old"), (true, "new")] {
            let content = NewContent::write(&file, NEW, &["n", "ew"]).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), "old");
            if is_published {
                content.publish().unwrap();
            } else {
                drop(content);
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn replaced_file_keeps_its_owner() {
        if !geteuid().is_root() {
            skipped_tests::record("files of another user", "not root").unwrap();
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "old").unwrap();
        for path in [directory.path(), &file] {
            std::os::unix::fs::chown(path, Some(OTHER_USER), Some(OTHER_USER + 1)).unwrap();
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        replace_file(&file, NEW, &["n", "ew"]).unwrap();
        let new = fs::metadata(&file).unwrap();
        let kept = (new.uid(), new.gid(), new.mode() & 0o7777);
        assert_eq!(kept, (OTHER_USER, OTHER_USER + 1, 0o604));
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn devices_and_own_pipes_are_written_to() {
        replace_file(Path::new("/dev/null"), NEW, &[b"text"]).unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&writer);
        replace_file(Path::new(&format!("/proc/self/fd/{fd}")), NEW, &[b"text"]).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn only_a_regular_file_is_replaced_if_one_is_expected() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        symlink("/dev/null", at("device")).unwrap();
        for name in ["pipe", "device"] {
            let error = replace_regular_file(&at(name), NEW, &[b"text"]).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{name}");
        }
        replace_regular_file(&at("file"), NEW, &[b"text"]).unwrap();
        replace_regular_file(&at("file"), NEW, &[b"new"]).unwrap();
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "new");
    }

    #[test]
    fn link_is_replaced_by_a_file_if_its_target_is_not_meant() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("target"), "kept").unwrap();
        for (name, target) in [("link", "target"), ("dangling", "nowhere"), ("loop", "loop")] {
            symlink(target, at(name)).unwrap();
            replace_by_own(&at(name), NEW, &[b"new"]).unwrap();
            assert!(fs::symlink_metadata(at(name)).unwrap().is_file(), "{name}");
            assert_eq!(fs::read_to_string(at(name)).unwrap(), "new", "{name}");
        }
        assert_eq!(fs::read_to_string(at("target")).unwrap(), "kept");
        assert!(!at("nowhere").exists());
        fs::set_permissions(at("link"), fs::Permissions::from_mode(0o600)).unwrap();
        replace_by_own(&at("link"), 0o755, &[b"new"]).unwrap();
        assert_eq!(fs::metadata(at("link")).unwrap().mode() & 0o7777, 0o755);
        let error = replace_by_own(directory.path(), NEW, &[b"new"]).unwrap_err();
        assert_eq!(error.to_string(), IRREGULAR);
    }

    #[test]
    fn links_pipes_and_modes_of_others_are_not_used() {
        if !geteuid().is_root() {
            skipped_tests::record("links and pipes of another user", "not root").unwrap();
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("victim"), "kept").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o666)).unwrap();
        fs::write(at("open"), "theirs").unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o666)).unwrap();
        for name in ["link", "pipe", "open"] {
            std::os::unix::fs::lchown(at(name), Some(OTHER_USER), None).unwrap();
        }
        for (name, what) in [("link", "a symbolic link"), ("pipe", "a pipe")] {
            let error = replace_file(&at(name), NEW, &[b"secret"]).unwrap_err();
            assert_eq!(error.to_string(), format!("{what} belongs to the user {OTHER_USER}"));
        }
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "kept");
        // A file of theirs is replaced, not written to: an open handle of it reads nothing.
        let mut theirs = File::open(at("open")).unwrap();
        replace_file(&at("open"), 0o600, &[b"secret"]).unwrap();
        let mut text = String::new();
        theirs.read_to_string(&mut text).unwrap();
        assert_eq!(text, "theirs");
        assert_eq!(fs::metadata(at("open")).unwrap().mode() & 0o777, 0o600);
        chown(at("victim"), Some(OTHER_USER), None).unwrap();
        fs::hard_link(at("victim"), at("hard")).unwrap();
        replace_file(&at("hard"), NEW, &[b"new"]).unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "kept");
    }
}
