//! Bootstraps of a configuration: Envoy's, and that of gRPC applications.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use local_files::{read_file, read_text_file};

use crate::bootstrap::{bootstrap, command_line, grpc};
use crate::config::Config;
use crate::node::Node;
use crate::supervisor::Desired;

/// Writes the bootstrap of gRPC applications, in one step.
pub(super) fn write_grpc(config: &Config) -> Result<()> {
    let Some(file) = &config.grpc_bootstrap else { return Ok(()) };
    let folder = std::env::current_dir().context("finding the working directory")?;
    let text = format!("{:#}", grpc::bootstrap(config, &Node::new(config), &folder));
    let prepared = match file.parent() {
        Some(parent) => fs::create_dir_all(parent),
        None => Ok(()),
    };
    prepared
        .and_then(|()| local_files::replace_regular_file(file, 0o644, &[text.as_bytes()]))
        .with_context(|| format!("writing {} (GRPC_XDS_BOOTSTRAP)", file.display()))
}

/// Reads the override, which travels as an argument of Envoy's.
fn override_text(file: &Path) -> Result<String> {
    let name = file.display();
    let text = read_text_file(file)
        .with_context(|| format!("reading {name} (ISTIO_BOOTSTRAP_OVERRIDE)"))?;
    ensure!(
        text.len() < LONGEST_ARGUMENT,
        "{name} (ISTIO_BOOTSTRAP_OVERRIDE) has {} bytes; Envoy takes less than {LONGEST_ARGUMENT}: \
         leave out what the bootstrap has already, and blanks",
        text.len()
    );
    Ok(text.to_string())
}

/// Returns the bootstrap of a configuration with Envoy.
pub(super) fn desired(config: &Config) -> Result<Desired> {
    let envoy = config.envoy.as_ref().context("DISABLE_ENVOY is set")?;
    let override_text = envoy.bootstrap_override.as_deref().map(override_text).transpose()?;
    Ok(Desired {
        bootstrap: bootstrap(config, envoy, &Node::new(config)),
        arguments: command_line::arguments(config, envoy),
        override_text,
        certificates: config
            .bootstrap
            .certificate_files()
            .iter()
            .map(|file| digest(file))
            .collect(),
        parent_shutdown_time: envoy.parent_shutdown_time,
        drain: config.drain.clone(),
    })
}

/// Returns a digest of a file; an absent file has one too.
fn digest(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    read_file(file).ok().map(|content| content.to_vec()).hash(&mut hasher);
    hasher.finish()
}

/// Linux' limit of one argument, `MAX_ARG_STRLEN`, with its end.
const LONGEST_ARGUMENT: usize = 128 * 1024;
