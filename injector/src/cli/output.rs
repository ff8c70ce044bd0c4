//! Where results go, and in which form: all at once, or not at all.

use std::fs::{self, File, Metadata};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use tempfile::NamedTempFile;

/// The form of what is told.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Form {
    Table,
    Json,
}

/// Writes a text to a stream. A reader that has seen enough and went away is no error.
pub(super) fn write(stream: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    write_parts(stream, &[text])
}

/// The same of a text in parts.
pub(super) fn write_parts(stream: &mut dyn Write, parts: &[impl AsRef<str>]) -> anyhow::Result<()> {
    match write_each(BufWriter::new(stream), parts) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("standard output"),
    }
}

/// Writes a file at once: whoever reads it sees the old text or the whole new one, and a failure
/// leaves the old one. An existing file keeps its owner and permissions; where that takes rights
/// that this process has not, it is written in place. A device or pipe is written to.
pub(super) fn write_file(path: &Path, parts: &[impl AsRef<str>]) -> anyhow::Result<()> {
    replace(path, parts).with_context(|| format!("--output {}", path.display()))
}

fn write_each(mut stream: impl Write, parts: &[impl AsRef<str>]) -> std::io::Result<()> {
    parts.iter().try_for_each(|part| stream.write_all(part.as_ref().as_bytes()))?;
    stream.flush()
}

fn replace(path: &Path, parts: &[impl AsRef<str>]) -> std::io::Result<()> {
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
        return write_each(BufWriter::new(File::create(path)?), parts);
    }
    // Through a symbolic link, so that the link stays.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let file = temporary(directory.unwrap_or(Path::new(".")))?;
    if let Some(existing) = existing {
        if keep_owner(file.as_file(), &existing).is_err() {
            // Of another user, who would lose the file by a replacement.
            return write_each(BufWriter::new(File::create(path)?), parts);
        }
        file.as_file().set_permissions(existing.permissions())?;
    }
    write_each(BufWriter::new(file.as_file()), parts)?;
    file.persist(&path).map_err(|failed| failed.error)?;
    Ok(())
}

/// A new file beside the one that it will replace; an error does not tell its name.
fn temporary(directory: &Path) -> std::io::Result<NamedTempFile> {
    let mut cause = None;
    let made = tempfile::Builder::new().prefix(".istioctl-").make_in(directory, |path| {
        let made = File::options().write(true).create_new(true).mode(NEW_FILE).open(path);
        cause = made.as_ref().err().and_then(std::io::Error::raw_os_error);
        made
    });
    made.map_err(|error| {
        cause.map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error)
    })
}

fn keep_owner(file: &File, existing: &Metadata) -> std::io::Result<()> {
    let new = file.metadata()?;
    let (owner, group) = (existing.uid(), existing.gid());
    if (new.uid(), new.gid()) == (owner, group) {
        return Ok(());
    }
    std::os::unix::fs::fchown(file, Some(owner), Some(group))
}

/// What a new file may be, before the umask.
const NEW_FILE: u32 = 0o666;

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn replaces_a_file_and_keeps_its_permissions_and_its_link() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, &["n", "ew"]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_existing_file_keeps_its_owner_and_mode() {
        assert!(rustix::process::geteuid().is_root(), "the tests run as root");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::chown(&file, Some(1000), Some(1001)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o604)).unwrap();
        write_file(&file, &["new"]).unwrap();
        let metadata = fs::metadata(&file).unwrap();
        let kept = (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777);
        assert_eq!(kept, (1000, 1001, 0o604));
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn writes_to_a_device() {
        write_file(Path::new("/dev/null"), &["text"]).unwrap();
    }

    #[test]
    fn names_the_flag_and_the_file() {
        let error = write_file(Path::new("/nowhere/file"), &["text"]).unwrap_err();
        let expected = "--output /nowhere/file: No such file or directory (os error 2)";
        assert_eq!(format!("{error:#}"), expected);
    }
}
