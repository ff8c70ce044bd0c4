//! Files that are written so that no other user of their directory reads, redirects or halves them.
//!
//! A new file gets a name of its own, is created exclusively, synced, and renamed over the one that
//! it replaces. Names are resolved from an open directory, so that a directory which is exchanged
//! meanwhile changes nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Uid, chownat, fchmod, flock, fstat,
    fsync, mkdirat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use rustls::crypto::ring::default_provider;
use zeroize::Zeroizing;

/// Replaces the content of one file; a reader sees the old text or the whole new one.
///
/// An existing file keeps its permissions and, where the caller may give files away, its owner; but
/// not one that another user has put into a directory which is not that user's. Any other file gets
/// `mode` before the umask.
/// A symbolic link of the caller's or of root's is followed, so that the link stays; another
/// user's is an error. A device, and a pipe of the caller's or of root's, is written to.
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
    let name = path.file_name().ok_or(Errno::ISDIR)?.to_string_lossy().into_owned();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = Directory::open(parent.unwrap_or(Path::new(".")))?;
    let owner = fstat(&directory.0)?.st_uid;
    let existing = existing.filter(|existing| is_own(existing.uid()) || existing.uid() == owner);
    let mode = match &existing {
        Some(existing) => FileMode::Exactly(existing.mode() & 0o7777),
        None => FileMode::BeforeUmask(mode),
    };
    let new = random_name(".outrigger-")?;
    let written = directory
        .create_file(&new, mode, parts)
        .and_then(|()| existing.map_or(Ok(()), |existing| directory.give(&new, &existing)))
        .and_then(|()| directory.rename(&new, &name))
        .and_then(|()| directory.sync());
    if written.is_err() {
        // The first error is the one to tell; a name that was renamed is not there any more.
        let _ = directory.remove_file(&new);
    }
    written
}

/// Follows symbolic links at the final name.
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
        // A link of /proc stands for an open file, whatever its text.
        if fs::metadata(&path).is_ok_and(|target| !target.is_file()) {
            return Ok(path);
        }
        let target = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(Errno::LOOP.into())
}

/// Permissions of a new file.
#[derive(Clone, Copy)]
pub(crate) enum FileMode {
    /// Permissions that the umask leaves.
    BeforeUmask(u32),
    /// Exactly these permissions, whatever the umask.
    Exactly(u32),
}

/// An open directory.
pub(crate) struct Directory(OwnedFd);

impl Directory {
    /// Opens a directory by its path, which may lead through symbolic links.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Takes the lock that keeps other calls of this program out, until the directory is closed.
    pub(crate) fn lock(&self) -> io::Result<()> {
        flock(&self.0, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => io::Error::other("another process is writing there"),
            error => error.into(),
        })
    }

    /// Tells who may write in the directory besides the caller.
    pub(crate) fn other_writers(&self) -> io::Result<Option<String>> {
        let stat = fstat(&self.0)?;
        let foreign = !is_own(stat.st_uid);
        Ok(match stat.st_mode & 0o022 {
            _ if foreign => Some(format!("the user {}", stat.st_uid)),
            0o020 if stat.st_gid == getegid().as_raw() => None,
            0o020 => Some(format!("the group {}", stat.st_gid)),
            0 => None,
            _ => Some("any user".to_owned()),
        })
    }

    /// Creates a file that was not there, with its content on the disk.
    pub(crate) fn create_file(
        &self,
        name: &str,
        mode: FileMode,
        parts: &[impl AsRef<[u8]>],
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let bits = match mode {
            FileMode::BeforeUmask(bits) => bits,
            // The content is not there yet, and no other user can open the file before it is.
            FileMode::Exactly(_) => 0o600,
        };
        let file = openat(&self.0, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(bits))?;
        if let FileMode::Exactly(bits) = mode {
            fchmod(&file, Mode::from_raw_mode(bits))?;
        }
        write_parts(File::from(file), parts)?.sync_all()
    }

    /// Gives a file to the owner of another one, where the caller may; else it stays the caller's.
    fn give(&self, name: &str, other: &fs::Metadata) -> io::Result<()> {
        let (owner, group) = (Uid::from_raw(other.uid()), Gid::from_raw(other.gid()));
        match chownat(&self.0, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) | Err(Errno::PERM) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a directory that was not there, which every user may look into.
    pub(crate) fn create_directory(&self, name: &str) -> io::Result<Self> {
        mkdirat(&self.0, name, Mode::from_raw_mode(0o700))?;
        let made = self.open_directory(name)?;
        let owner = fstat(&made.0)?.st_uid;
        if owner != geteuid().as_raw() {
            return Err(foreign("the new directory", owner));
        }
        fchmod(&made.0, Mode::from_raw_mode(0o755))?;
        Ok(made)
    }

    /// Opens a directory inside, not through a symbolic link.
    pub(crate) fn open_directory(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Reads a file of the caller's or of root's; `None` where there is none.
    pub(crate) fn read_own(&self, name: &str) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        // A pipe would not be opened before it has a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        if !is_own(stat.st_uid) {
            return Err(foreign("it", stat.st_uid));
        }
        let size = stat.st_size.cast_unsigned();
        // Never grows beyond this, so that no copy of a key is left behind in freed memory.
        let mut bytes = Zeroizing::new(Vec::new());
        bytes
            .try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX))
            .map_err(io::Error::other)?;
        File::from(file).take(size).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Reads a symbolic link; `None` where there is none, or something else under that name.
    pub(crate) fn read_link(&self, name: &str) -> io::Result<Option<String>> {
        match readlinkat(&self.0, name, Vec::new()) {
            Ok(target) => Ok(target.into_string().ok()),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a symbolic link in the place of whatever has that name.
    ///
    /// `new` is the name that the link has before.
    pub(crate) fn replace_link(&self, target: &str, new: &str, name: &str) -> io::Result<()> {
        symlinkat(target, &self.0, new)?;
        self.rename(new, name)
    }

    /// Renames a file inside, over whatever has the name `to`.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file.
    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Lists the names that begin with `prefix`.
    pub(crate) fn names(&self, prefix: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(self.0.as_fd())? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with(prefix) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Has what was created and renamed inside reach the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }
}

/// A random name.
pub(crate) fn random_name(prefix: &str) -> io::Result<String> {
    let mut random = [0; 8];
    default_provider()
        .secure_random
        .fill(&mut random)
        .map_err(|_| io::Error::other("the system's random generator failed"))?;
    Ok(format!("{prefix}{:016x}", u64::from_ne_bytes(random)))
}

/// True if the user is the caller, or root, who has every file anyway.
fn write_parts(file: File, parts: &[impl AsRef<[u8]>]) -> io::Result<File> {
    let mut writer = BufWriter::new(file);
    parts.iter().try_for_each(|part| writer.write_all(part.as_ref()))?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)
}

fn is_own(user: u32) -> bool {
    user == geteuid().as_raw() || user == 0
}

fn foreign(what: &str, user: u32) -> io::Error {
    io::Error::other(format!("{what} belongs to the user {user}"))
}

/// Linux follows as many.
const LINKS: usize = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    const NEW: u32 = 0o644;
    const OTHER_USER: u32 = 65_432;

    #[test]
    fn replaces_a_file_and_keeps_its_permissions_and_its_link() {
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
        // One that leads to nothing yet.
        symlink("later", directory.path().join("dangling")).unwrap();
        replace_file(&directory.path().join("dangling"), NEW, &[b"new"]).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("later")).unwrap(), "new");
    }

    #[test]
    fn an_existing_file_keeps_its_owner_in_a_directory_of_that_owner() {
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
    fn writes_to_a_device_and_to_a_pipe_of_its_own() {
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
    fn links_pipes_and_modes_of_others_count_for_nothing() {
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
        // Their file is replaced and not written to, so that who has it open reads nothing.
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
