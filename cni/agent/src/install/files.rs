//! Reads and changes the folders of the runtime.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use local_files::{
    read_file_up_to, read_text_file, remove_if_present, replace_by_own, replace_regular_file,
};
use thiserror::Error;

use crate::install::conf_dir::{ConfDir, DROP_IN, is_loaded};
use crate::install::entry::TYPE;
use crate::install::plan::FolderChange;

/// Error of a folder or a file.
#[derive(Debug, Error)]
#[error("{}: {operation}: {error}{}", path.display(), hint(error))]
pub struct FileError {
    /// Folder or file.
    path: PathBuf,
    /// Operation that failed.
    operation: &'static str,
    /// The error.
    #[source]
    error: io::Error,
}

/// Returns a hint about the mounts of the agent.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "; hint: mount the folder writable; some nodes have other folders, see --help"
        }
        io::ErrorKind::NotFound => {
            "; hint: mount the folder of the node; some nodes have other folders, see --help"
        }
        io::ErrorKind::PermissionDenied if error.raw_os_error() == Some(EPERM) => {
            "; hint: an immutable file (lsattr) or a security module forbids it"
        }
        io::ErrorKind::PermissionDenied => "; hint: the agent needs user 0 and CAP_DAC_OVERRIDE",
        io::ErrorKind::StorageFull => "; hint: free space on this file system",
        _ => "",
    }
}

impl FileError {
    fn new(path: &Path, operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self { path, operation, error }
    }
}

/// Reads the folder of the configurations.
pub fn read_conf_dir(folder: &Path) -> Result<ConfDir, FileError> {
    let failed = || FileError::new(folder, "reading the folder");
    let mut found = ConfDir::default();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let name = match entry.file_name().into_string() {
            Ok(name) => name,
            Err(name) => {
                let name = name.to_string_lossy().into_owned();
                if is_loaded(&name) {
                    found.0.insert(name, Err("its name is not UTF-8".to_owned()));
                }
                continue;
            }
        };
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_loaded(&name) && !is_folder {
            match text(&entry.path()) {
                // It was removed meanwhile. A link to a file that is not mounted here is an error: the
                // runtime reads it.
                Err(_) if entry.path().symlink_metadata().is_err() => {}
                text => drop(found.0.insert(name, text.map_err(|error| error.to_string()))),
            }
        } else if let Ok(text) = text(&entry.path().join(DROP_IN)) {
            found.0.insert(format!("{name}/{DROP_IN}"), Ok(text));
        }
    }
    Ok(found)
}

fn text(path: &Path) -> io::Result<String> {
    read_text_file(path).map(|text| text.to_string())
}

/// Carries out a change. `mode` is that of a new file.
pub fn change(folder: &Path, change: &FolderChange, mode: u32) -> Result<(), FileError> {
    match change {
        FolderChange::Write { file, text } => {
            let path = folder.join(file);
            if let Some((network, _)) = file.split_once('/') {
                let created = fs::create_dir_all(folder.join(network));
                created.map_err(FileError::new(&path, "creating its folder"))?;
            }
            replace_by_own(&path, mode, &[text]).map_err(FileError::new(&path, "writing"))
        }
        FolderChange::Edit { file, text } => {
            let path = folder.join(file);
            // Of a file of another user, the mode stays too.
            let mode = fs::metadata(&path).map_or(mode, |file| file.mode() & 0o777);
            replace_regular_file(&path, mode, &[text]).map_err(FileError::new(&path, "writing"))
        }
        FolderChange::Remove(file) => {
            let path = folder.join(file);
            remove_if_present(&path).map_err(FileError::new(&path, "removing"))?;
            if let Some((network, _)) = file.split_once('/') {
                // It stays if it has files of others.
                let _ = fs::remove_dir(folder.join(network));
            }
            sync(folder)
        }
    }
}

/// Makes the runtime load the folder again.
pub fn reload(folder: &Path) -> Result<(), FileError> {
    let path = folder.join(RELOAD);
    let write = || -> io::Result<()> {
        File::create(&path)?.write_all(b"\n")?;
        fs::remove_file(&path)
    };
    write().map_err(FileError::new(&path, "making the runtime load its folder again"))
}

fn sync(folder: &Path) -> Result<(), FileError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(FileError::new(folder, "syncing"))
}

/// Returns the plugin's content, unless the same one is installed.
pub fn new_plugin(plugin: &Path, folder: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let content = read_file_up_to(plugin, LARGEST_PLUGIN)
        .map_err(FileError::new(plugin, "reading the plugin"))?;
    Ok((!is_installed(&folder.join(TYPE), &content)).then(|| content.to_vec()))
}

/// Writes the plugin. Running plugins keep the old file.
pub fn install_plugin(content: &[u8], folder: &Path) -> Result<(), FileError> {
    let installed = folder.join(TYPE);
    replace_by_own(&installed, PROGRAM, &[content])
        .map_err(FileError::new(&installed, "writing the plugin"))
}

/// True if the file has this content, the mode of a program, and the owner of this process: the
/// runtime runs it as root.
fn is_installed(path: &Path, content: &[u8]) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return false };
    metadata.is_file()
        && metadata.len() == content.len() as u64
        && metadata.mode() & 0o7777 == PROGRAM
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && fs::read(path).is_ok_and(|installed| installed == content)
}

/// Removes the plugin.
pub fn remove_plugin(folder: &Path) -> Result<(), FileError> {
    let installed = folder.join(TYPE);
    remove_if_present(&installed).map_err(FileError::new(&installed, "removing the plugin"))
}

/// Returns the folders in which the runtime's configurations are: the folder itself, those of
/// networks, and those of the targets of links.
pub fn conf_dirs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let further = entries.filter_map(|entry| match entry.file_type().ok()? {
        _ if entry.path().is_dir() => Some(entry.path()),
        kind if kind.is_symlink() => {
            let target = entry.path().canonicalize();
            // A file that is absent for a moment has a folder too.
            let target = target.or_else(|_| fs::read_link(entry.path()).map(|it| folder.join(it)));
            Some(target.ok()?.parent()?.to_owned())
        }
        _ => None,
    });
    std::iter::once(folder.to_owned()).chain(further).collect()
}

/// Removes the temporary files that an agent which was killed has left in the folder. A running agent
/// must not be writing: it holds the lock.
pub fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            // The next start tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

const EPERM: i32 = rustix::io::Errno::PERM.raw_os_error();
/// Start of the names of temporary files, in `local-files` too. Runtimes load none of them.
const TEMPORARY: &str = ".outrigger-";
const RELOAD: &str = ".outrigger-reload";
/// Largest plugin that is installed, in bytes.
const LARGEST_PLUGIN: u64 = 64 << 20;
/// Mode of the plugin.
const PROGRAM: u32 = 0o755;
