//! Operations on an open directory that no other user can redirect.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Gid, Mode, OFlags, Uid, chownat, fchmod, flock, fstat,
    fsync, mkdirat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

/// Permissions of a new file.
#[derive(Clone, Copy)]
pub(crate) enum FileMode {
    /// Permissions reduced by the umask.
    BeforeUmask(u32),
    /// Exactly these permissions, whatever the umask.
    Exactly(u32),
}

/// An open directory.
pub(crate) struct Directory(OwnedFd);

impl Directory {
    /// Opens a directory; symbolic links in the path are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Owner of the directory.
    pub(crate) fn owner(&self) -> io::Result<u32> {
        Ok(fstat(&self.0)?.st_uid)
    }

    /// Locks the directory against other calls of this program until it is closed.
    pub(crate) fn lock(&self) -> io::Result<()> {
        flock(&self.0, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => io::Error::other("another process is writing there"),
            error => error.into(),
        })
    }

    /// Returns the users that may write in the directory besides the caller.
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

    /// Creates a new file and syncs its content to disk.
    pub(crate) fn create_file(
        &self,
        name: &str,
        mode: FileMode,
        parts: &[impl AsRef<[u8]>],
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let bits = match mode {
            FileMode::BeforeUmask(bits) => bits,
            // No other user can open the file before its content is written.
            FileMode::Exactly(_) => 0o600,
        };
        let file = openat(&self.0, name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(bits))?;
        if let FileMode::Exactly(bits) = mode {
            fchmod(&file, Mode::from_raw_mode(bits))?;
        }
        write_parts(File::from(file), parts)?.sync_all()
    }

    /// Gives a file to the owner of another one; without the right it stays the caller's.
    pub(crate) fn give(&self, name: &str, other: &fs::Metadata) -> io::Result<()> {
        let (owner, group) = (Uid::from_raw(other.uid()), Gid::from_raw(other.gid()));
        match chownat(&self.0, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) | Err(Errno::PERM) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a new directory that every user may list.
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

    /// Opens a subdirectory; a symbolic link is an error.
    pub(crate) fn open_directory(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Reads a file of the caller or of root; `None` if it is missing.
    pub(crate) fn read_own(&self, name: &str) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        // Without NONBLOCK, opening a pipe waits for a writer.
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
        // Reserved once: growing would leave copies of a key in freed memory.
        let mut bytes = Zeroizing::new(Vec::new());
        bytes
            .try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX))
            .map_err(io::Error::other)?;
        File::from(file).take(size).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Reads a symbolic link; `None` if it is missing or not a link.
    pub(crate) fn read_link(&self, name: &str) -> io::Result<Option<String>> {
        match readlinkat(&self.0, name, Vec::new()) {
            Ok(target) => Ok(target.into_string().ok()),
            Err(Errno::NOENT | Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a symbolic link as `new` and renames it over `name`.
    pub(crate) fn replace_link(&self, target: &str, new: &str, name: &str) -> io::Result<()> {
        symlinkat(target, &self.0, new)?;
        self.rename(new, name)
    }

    /// Renames a file inside, replacing a file with the name `to`.
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

    /// Syncs created and renamed entries to disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.0)?)
    }
}

/// A random name.
pub(crate) fn random_name(prefix: &str) -> io::Result<String> {
    let mut random = [0; 8];
    let filled = getrandom(&mut random, GetRandomFlags::empty())?;
    if filled < random.len() {
        return Err(io::Error::other("the system's random generator failed"));
    }
    Ok(format!("{prefix}{:016x}", u64::from_ne_bytes(random)))
}

/// Writes the parts one after another.
pub(crate) fn write_parts(file: File, parts: &[impl AsRef<[u8]>]) -> io::Result<File> {
    let mut writer = BufWriter::new(file);
    parts.iter().try_for_each(|part| writer.write_all(part.as_ref()))?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)
}

/// True for the caller and for root, who can change every file anyway.
pub(crate) fn is_own(user: u32) -> bool {
    user == geteuid().as_raw() || user == 0
}

/// Error about a file of another user.
pub(crate) fn foreign(what: &str, user: u32) -> io::Error {
    io::Error::other(format!("{what} belongs to the user {user}"))
}
