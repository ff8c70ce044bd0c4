//! Removal of plugin and configuration from a node.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cni::question::SOCKET;
use serde_json::Value;

use crate::args::Arguments;
use crate::install::entry::TYPE;
use crate::install::files;
use crate::installer::{LOCK, Paths, installation};
use crate::run::READY;
use local_files::{read_file, remove_if_present};

/// Removes the entry of the plugin. With `purge`, removes the plugin too.
///
/// A runtime that still names the plugin makes and deletes no pod without its program. So the plugin
/// stays, or with `purge` it is an error, while attachments of pods or configurations name it.
pub fn uninstall(arguments: &Arguments, purge: bool) -> Result<()> {
    let paths = Paths::new(arguments)?;
    if UnixStream::connect(paths.run_dir.join(SOCKET)).is_ok() {
        bail!(
            "install-cni runs on this node, and would install the plugin again; hint: delete \
             DaemonSet istio-cni-node first"
        );
    }
    let lock = paths.lock().ok();
    files::remove_leftovers(&paths.conf_dir);
    files::remove_leftovers(&paths.bin_dir);
    let installation = installation(&arguments.configuration, &paths.run_dir, false);
    let folder = files::read_conf_dir(&paths.conf_dir)?;
    let changes = installation.removal(&folder);
    for change in &changes {
        files::change(&paths.conf_dir, change, paths.file_mode)?;
        tracing::info!("{}: {change}", paths.conf_dir.display());
    }
    let naming = files::naming_plugin(&paths.conf_dir)?;
    if changes.is_empty() && naming.is_empty() {
        tracing::info!("{}: no file has an entry of the plugin", paths.conf_dir.display());
    }
    // The runtime may have missed a change of a drop-in, of this process or of one that was killed.
    match files::reload(&paths.conf_dir) {
        Err(error) if changes.is_empty() => tracing::warn!("{error}"),
        done => done?,
    }
    drop(lock);
    remove_run_dir(&paths.run_dir);
    let folder = files::read_conf_dir(&paths.conf_dir)?;
    let is_invalid = |file: &&String| {
        folder.text(file).is_none_or(|text| serde_json::from_str::<Value>(text).is_err())
    };
    if let Some(file) = naming.iter().filter(|file| !file.contains('/')).find(is_invalid) {
        bail!(
            "{file} in {} may name the plugin, and is no JSON that can be read; hint: try again when \
             its owner has written it, or remove it",
            paths.conf_dir.display()
        );
    }
    let attachments = attachments_of_plugin(arguments)?;
    let (count, folder) = (attachments.len(), arguments.node.mounted_cni_cache_dir.display());
    if !purge {
        tracing::info!(
            "the configuration is removed; the plugin stays, for {count} attachments of pods that \
             name it; hint: install-cni uninstall --purge removes it"
        );
        return Ok(());
    }
    if let Some(first) = attachments.first() {
        bail!(
            "{count} attachments of pods name the plugin, and their pods cannot be deleted without \
             it: {first} in {folder} is the first; hint: restart these pods, or drain the node, and \
             try again"
        );
    }
    if let Some(file) = naming.first() {
        bail!(
            "{file} in {} names the plugin, and no pod can be made without it; hint: if Istio's \
             node agent runs, it needs the plugin; else remove the entry istio-cni from this file",
            paths.conf_dir.display()
        );
    }
    files::remove_plugin(&paths.bin_dir)?;
    tracing::info!("configuration and plugin are removed");
    Ok(())
}

/// Fails while a file of the node has the plugin's entry.
pub fn is_done(arguments: &Arguments) -> Result<()> {
    let paths = Paths::new(arguments)?;
    let installation = installation(&arguments.configuration, &paths.run_dir, false);
    let folder = files::read_conf_dir(&paths.conf_dir)?;
    if let Some(change) = installation.removal(&folder).first() {
        bail!("{} in {} has the plugin's entry", change.file(), paths.conf_dir.display());
    }
    Ok(())
}

/// Removes what the agent has written, and the folder unless it has files of others.
fn remove_run_dir(folder: &Path) {
    for name in [SOCKET, READY, LOCK] {
        let file = folder.join(name);
        if let Err(error) = remove_if_present(&file) {
            tracing::warn!("{}: {error}", file.display());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// Returns the cached attachments whose configuration has the plugin, or that cannot be read.
fn attachments_of_plugin(arguments: &Arguments) -> Result<Vec<String>> {
    let folder = &arguments.node.mounted_cni_cache_dir;
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => {
            entries.with_context(|| format!("--mounted-cni-cache-dir {}", folder.display()))?
        }
    };
    let mut found: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()))
        .filter(|entry| match read_file(&entry.path()) {
            Ok(text) => names_plugin(&text),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    Ok(found)
}

fn names_plugin(cache: &[u8]) -> bool {
    // libcni may be writing it.
    let Ok(cache) = serde_json::from_slice::<Value>(cache) else { return true };
    let config = cache["config"].as_str().and_then(|config| STANDARD.decode(config).ok());
    let config: Value = serde_json::from_slice(&config.unwrap_or_default()).unwrap_or_default();
    let plugins = config["plugins"].as_array().into_iter().flatten();
    plugins.chain([&config]).any(|plugin| plugin["type"] == TYPE)
}
