//! Connection of a command to a cluster, made only when a command needs it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use injector::cluster::{hooks, proxy_configs};
use injector::kubernetes::webhook_configuration::HookConfiguration;
use injector::report::inspection::Injector;
use injector::settings::proxy_configs::ProxyConfigs;
use injector::settings::{Process, Settings};
use injector::sources::config_maps::ConfigMaps;
use kube::config::Kubeconfig;
use kube::{Client, Config};
use kube_access::{kubeconfig, with_causes};

use crate::Streams;
use crate::client_flags::ClientFlags;

/// Flags that every command on a cluster needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterClient<'a> {
    /// Flags that select the cluster.
    pub(super) flags: &'a ClientFlags,
    /// The namespace; empty if none is given.
    pub(super) namespace: &'a str,
    /// The control plane's namespace.
    pub(super) control_plane: &'a str,
}

/// A connected cluster.
pub(super) struct Cluster {
    pub(super) client: Client,
    /// The flags and the URL of the API server, for messages.
    pub(super) name: String,
}

/// Connects to the cluster and runs a command's requests to completion.
pub(super) fn ask<T>(
    flags: &ClientFlags,
    asks: impl AsyncFnOnce(Cluster) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    // An error means that a provider is installed already. There is only one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(async {
        let (mut config, kubeconfig) = config(flags).await?;
        flags.apply(&mut config);
        let name = format!("{}, server {}", flags.words(&kubeconfig), config.cluster_url);
        let client = Client::try_from(config);
        let client = client.context("creating a client for the cluster").context(name.clone())?;
        asks(Cluster { client, name }).await
    })
}

/// Divides `NAME` or `NAME.NAMESPACE`. With the namespace of a flag, a dot is part of the name; the
/// namespace is empty if neither gives one.
pub(super) fn name_and_namespace<'a>(given: &'a str, namespace: &'a str) -> (&'a str, &'a str) {
    match given.rsplit_once('.') {
        Some(parts) if namespace.is_empty() => parts,
        _ => (given, namespace),
    }
}

/// True if the environment has a kubeconfig or a service account.
pub(super) fn is_configured() -> bool {
    is_named_by_environment() || Kubeconfig::read().is_ok() || Config::incluster().is_ok()
}

/// True if the environment names a kubeconfig.
pub(super) fn is_named_by_environment() -> bool {
    std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty())
}

/// Returns the client configuration that the flags select, or else the environment, with its name in
/// messages.
async fn config(flags: &ClientFlags) -> anyhow::Result<(Config, String)> {
    let context = Some(flags.context.as_str()).filter(|context| !context.is_empty());
    if flags.kubeconfig.is_empty() {
        return Ok(kubeconfig::from_environment(context).await?);
    }
    let origin = format!("--kubeconfig {}", flags.kubeconfig);
    let config = kubeconfig::from_file(Path::new(&flags.kubeconfig), &origin, context).await?;
    Ok((config, origin))
}

/// Returns the webhook configurations of injectors. Prints those that cannot be parsed.
pub(super) async fn configurations(
    client: &Client,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Vec<HookConfiguration>> {
    let (configurations, wrong) =
        hooks::all(client.clone()).await.context("listing mutatingwebhookconfigurations")?;
    for error in wrong {
        streams.say(&format!("warning: {error}; it is ignored"));
    }
    Ok(configurations)
}

/// Returns the known injector of every revision in the webhook configurations. Prints the unknown
/// ones.
pub(super) async fn injectors(
    client: &Client,
    namespace: &str,
    configurations: &[HookConfiguration],
    streams: &mut Streams<'_>,
) -> BTreeMap<String, Injector> {
    let mut injectors = BTreeMap::new();
    let mut unknown = Vec::new();
    for HookConfiguration { revision, .. } in configurations {
        if injectors.contains_key(revision) || unknown.contains(revision) {
            continue;
        }
        match injector(client, namespace, revision, streams).await {
            Ok(known) => {
                injectors.insert(revision.clone(), known);
            }
            Err(error) => {
                let error = with_causes(error.as_ref());
                streams.say(&format!(
                    "warning: the configuration of revision {revision} is unknown: {error}"
                ));
                unknown.push(revision.clone());
            }
        }
    }
    injectors
}

async fn injector(
    client: &Client,
    namespace: &str,
    revision: &str,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Injector> {
    let texts = ConfigMaps::for_revision(namespace, revision).read(client.clone()).await?;
    let own = if revision == "default" { String::new() } else { revision.to_owned() };
    let process = Process { revision: own, native_sidecars: true, ..Process::default() };
    let settings = Arc::new(Settings::parse(&texts.documents(), process)?);
    let proxy_configs = proxy_configs::usable(client.clone(), revision).await;
    let proxy_configs = proxy_configs.unwrap_or_else(|error| {
        streams.say(&format!("warning: ProxyConfig resources are ignored: {error}"));
        ProxyConfigs::default()
    });
    Ok(Injector { settings, proxy_configs })
}
