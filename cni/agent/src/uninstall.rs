//! Removal of plugin and configuration from a node.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cni::question::SOCKET;
use serde_json::Value;

use crate::args::Arguments;
use crate::install::entry::TYPE;
use crate::install::files;
use crate::installer::{Paths, installation};

/// Removes the entry of the plugin. With `purge`, removes the plugin too.
///
/// A runtime that still names the plugin deletes no pod without its program. So the plugin stays, or
/// with `purge` it is an error, while attachments of pods name it.
pub fn uninstall(arguments: &Arguments, purge: bool) -> Result<()> {
    let paths = Paths::new(arguments)?;
    if UnixStream::connect(paths.run_dir.join(SOCKET)).is_ok() {
        bail!(
            "install-cni runs on this node, and would install the plugin again; hint: delete \
             DaemonSet istio-cni-node first"
        );
    }
    let installation = installation(&arguments.configuration, &paths.run_dir, false);
    let folder = files::read_conf_dir(&paths.conf_dir)?;
    let changes = installation.removal(&folder);
    for change in &changes {
        files::change(&paths.conf_dir, change, paths.file_mode)?;
        tracing::info!("{}: {change}", paths.conf_dir.display());
    }
    match fs::remove_dir_all(&paths.run_dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("{}: {error}", paths.run_dir.display());
        }
        _ => {}
    }
    let attachments = attachments_of_plugin(arguments)?;
    if !purge {
        tracing::info!(
            "the configuration is removed; the plugin stays, for {attachments} attachments of pods \
             that name it; hint: install-cni uninstall --purge removes it"
        );
        return Ok(());
    }
    if attachments > 0 {
        bail!(
            "{attachments} attachments of pods name the plugin, and their pods cannot be deleted \
             without it; hint: restart these pods, or drain the node, and try again"
        );
    }
    files::remove_plugin(&paths.plugin, &paths.bin_dir)?;
    tracing::info!("configuration and plugin are removed");
    Ok(())
}

/// Returns the number of attachments whose configuration has the plugin.
fn attachments_of_plugin(arguments: &Arguments) -> Result<usize> {
    let folder = &arguments.node.mounted_cni_cache_dir;
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => {
            entries.with_context(|| format!("--mounted-cni-cache-dir {}", folder.display()))?
        }
    };
    let texts = entries.flatten().filter_map(|entry| fs::read(entry.path()).ok());
    Ok(texts.filter(|text| names_plugin(text)).count())
}

fn names_plugin(cache: &[u8]) -> bool {
    let cache: Value = serde_json::from_slice(cache).unwrap_or_default();
    let config = cache["config"].as_str().and_then(|config| STANDARD.decode(config).ok());
    let config: Value = serde_json::from_slice(&config.unwrap_or_default()).unwrap_or_default();
    let plugins = config["plugins"].as_array().into_iter().flatten();
    plugins.chain([&config]).any(|plugin| plugin["type"] == TYPE)
}
