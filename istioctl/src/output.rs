//! Output of results: all at once, or not at all.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use documents::yaml;
use local_files::replace_file;
use serde_json::Value;

/// Output format.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Form {
    // Istio's name of the form in `proxy-config`.
    #[value(alias = "short")]
    Table,
    Json,
    Yaml,
}

impl Form {
    /// Returns a value for programs: YAML, and JSON in the other forms.
    pub(super) fn render(self, value: &Value) -> anyhow::Result<String> {
        match self {
            Self::Yaml => yaml::to_string(value).context("writing YAML"),
            Self::Table | Self::Json => Ok(format!("{value:#}\n")),
        }
    }
}

/// Output format of a command with pictures.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum PictureForm {
    #[value(alias = "text")]
    Table,
    Json,
    Yaml,
    Mermaid,
    Svg,
}

/// Writes a text to a stream. A reader that closes the stream early is not an error.
pub(super) fn write(stream: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    write_parts(stream, &[text])
}

/// Writes a text in parts, as [`write()`].
pub(super) fn write_parts(stream: &mut dyn Write, parts: &[impl AsRef<str>]) -> anyhow::Result<()> {
    let mut stream = BufWriter::new(stream);
    let mut parts = parts.iter().map(|part| part.as_ref().as_bytes());
    match parts.try_for_each(|part| stream.write_all(part)).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("standard output"),
    }
}

/// Replaces a file atomically: a reader sees the old text or the whole new one, and a failure keeps
/// the old one. An existing file keeps its owner and permissions. A device or pipe is written
/// directly.
pub(super) fn write_file(path: &Path, parts: &[impl AsRef<[u8]>]) -> anyhow::Result<()> {
    replace_file(path, NEW_FILE, parts).with_context(|| format!("--output {}", path.display()))
}

/// Permissions of a new file, before the umask.
pub(super) const NEW_FILE: u32 = 0o666;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_error_names_the_flag_and_the_file() {
        let error = write_file(Path::new("/nowhere/file"), &["text"]).unwrap_err();
        assert!(format!("{error:#}").starts_with("--output /nowhere/file: "), "{error:#}");
    }
}
