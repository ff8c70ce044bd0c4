//! Objects from a directory of YAML files: a registry without an API server.

mod directory;
mod objects;
mod parse;
mod split;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

pub use self::directory::{Directory, DirectoryUpdate};
pub use self::objects::FileObjects;
pub use self::parse::{FileError, ParsedFile, parse};
use crate::manifest::ObjectDefaults;

/// Polls a directory and offers its changes, for ever. Problems of files are logged once.
///
/// The first events are one [`Replace`](crate::event::Update::Replace) of each kind. Files are to be
/// replaced by renaming, so that none is read half-written.
pub async fn watch(
    path: &Path,
    interval: Duration,
    defaults: ObjectDefaults,
    mut offer: impl FnMut(DirectoryUpdate),
) -> Infallible {
    let mut directory = Directory::new(defaults);
    let kept = "the last known objects stay";
    let read = || {
        read(path).map_err(|error| format!("reading directory {} failed: {error}", path.display()))
    };
    let offer = |files: &BTreeMap<String, Vec<u8>>| {
        let update = directory.update(files);
        for warning in &update.warnings {
            tracing::warn!("{}/{warning}", path.display());
        }
        offer(update);
        Ok(())
    };
    local_files::follow(interval, None, kept, read, offer).await
}

/// Reads the YAML and JSON files of a directory, without its subdirectories and hidden files.
pub fn read(directory: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in directory.read_dir()? {
        let path = entry?.path();
        let is_known = path.extension().and_then(OsStr::to_str).is_some_and(|extension| {
            ["json", "yaml", "yml"].iter().any(|known| extension.eq_ignore_ascii_case(known))
        });
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name.filter(|name| is_known && !name.starts_with('.')) else { continue };
        match local_files::read_file_up_to(&path, LARGEST) {
            Ok(mut content) => {
                files.insert(name, std::mem::take(&mut *content));
            }
            // Removed since the directory was listed, or not a file.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {
            }
            Err(error) => return Err(io::Error::other(format!("{name}: {error}"))),
        }
    }
    Ok(files)
}

/// Larger than thousands of objects in one file.
const LARGEST: u64 = 64 << 20;
