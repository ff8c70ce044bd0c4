//! Where results go, and in which form: all at once, or not at all.

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use webhook_certs::exclusive::replace_file;

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
    replace_file(path, NEW_FILE, text.as_bytes())
        .with_context(|| format!("--output {}", path.display()))
}

/// What a new file may be, before the umask.
const NEW_FILE: u32 = 0o666;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_flag_and_the_file() {
        let error = write_file(Path::new("/nowhere/file"), "text").unwrap_err();
        assert!(format!("{error:#}").starts_with("--output /nowhere/file: "), "{error:#}");
    }
}
