//! Where results go, and in which form: all at once, or not at all.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;

/// The form of what is told.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Form {
    Table,
    Json,
}

/// Writes a text to a stream. A reader that has seen enough and went away is no error.
pub(super) fn write(stream: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    match stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("standard output"),
    }
}

/// Writes a file at once: whoever reads it sees the old text or the whole new one, and a failure
/// leaves the old one. An existing file keeps its permissions; a device or pipe is written to.
pub(super) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    replace(path, text).with_context(|| format!("--output {}", path.display()))
}

fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
        return Ok(fs::write(path, text)?);
    }
    // Through a symbolic link, so that the link stays.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".istioctl-")
        .permissions(Permissions::from_mode(NEW_FILE))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    if let Some(existing) = existing {
        file.as_file().set_permissions(existing.permissions())?;
    }
    file.persist(&path)?;
    Ok(())
}

/// What a new file may be, before the umask.
const NEW_FILE: u32 = 0o666;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_a_file_and_keeps_its_permissions_and_its_link() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn writes_to_a_device() {
        write_file(Path::new("/dev/null"), "text").unwrap();
    }

    #[test]
    fn names_the_flag_and_the_file() {
        let error = write_file(Path::new("/nowhere/file"), "text").unwrap_err();
        assert!(format!("{error:#}").starts_with("--output /nowhere/file: "), "{error:#}");
    }
}
