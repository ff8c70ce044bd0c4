//! Removal of plugin and configuration from a node.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use cni::question::SOCKET;

use crate::args::Arguments;
use crate::install::plan::removal;
use crate::install::{files, naming};
use crate::installer::{LOCK, Paths};
use crate::run::READY;
use local_files::remove_if_present;

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
    let lock = paths.lock();
    // The run folder is absent if no agent has run.
    if let Err(error) = &lock
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("{}: {error}", paths.run_dir.join(LOCK).display());
    }
    paths.remove_leftovers();
    let conf_dir = paths.conf_dir.display();
    let folder = files::read_conf_dir(&paths.conf_dir)?;
    let changes = removal(&folder);
    for change in &changes {
        files::change(&paths.conf_dir, change, paths.file_mode)?;
        tracing::info!("{conf_dir}: {change}");
    }
    for (_, list) in folder.lists() {
        // An agent that was killed before it wrote the drop-in has left it empty. It stays if it has
        // files.
        let _ = fs::remove_dir(paths.conf_dir.join(list.name));
    }
    let naming = naming::configurations(&paths.conf_dir);
    let naming = naming.with_context(|| format!("--mounted-cni-net-dir {conf_dir}"))?;
    if folder.0.is_empty() {
        tracing::warn!(
            "{conf_dir}: no configuration of a network is there; hint: if pods of this node have a \
             network, mount the runtime's own folder here"
        );
    } else if changes.is_empty() && naming.is_empty() {
        tracing::info!("{conf_dir}: no file has an entry of the plugin");
    }
    // The runtime may have missed a change of a drop-in, of this process or of one that was killed.
    match files::reload(&paths.conf_dir) {
        Err(error) if changes.is_empty() => tracing::warn!("{error}"),
        done => done?,
    }
    drop(lock);
    remove_run_dir(&paths.run_dir);
    // Of a file that cannot be judged, the entry is not removed.
    if let Some(naming) = naming.iter().find(|naming| naming.is_unjudged_list()) {
        bail!(
            "{} in {conf_dir} {naming}; hint: try again when its owner has written it, or remove it",
            naming.file
        );
    }
    let cache = &arguments.node.mounted_cni_cache_dir;
    let attachments = naming::attachments(cache)
        .with_context(|| format!("--mounted-cni-cache-dir {}", cache.display()))?;
    let count = attachments.len();
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
             it: the first, {} in {}, {first}; hint: restart these pods, or drain the node, and try again",
            first.file,
            cache.display()
        );
    }
    if let Some(first) = naming.first() {
        bail!(
            "{} in {conf_dir} {first}, and no pod can be made without it; hint: if Istio's node \
             agent runs, it needs the plugin; else remove the entry istio-cni from this file",
            first.file
        );
    }
    files::remove_plugin(&paths.bin_dir)?;
    tracing::info!("configuration and plugin are removed");
    Ok(())
}

/// Fails while a file of the node has the plugin's entry.
pub fn is_done(arguments: &Arguments) -> Result<()> {
    let paths = Paths::new(arguments)?;
    let folder = files::read_conf_dir(&paths.conf_dir)?;
    if let Some(change) = removal(&folder).first() {
        bail!("{} in {} has the plugin's entry", change.file(), paths.conf_dir.display());
    }
    let naming = naming::configurations(&paths.conf_dir)?;
    if let Some(naming) = naming.iter().find(|naming| naming.is_unjudged_list()) {
        bail!("{} in {} {naming}", naming.file, paths.conf_dir.display());
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
