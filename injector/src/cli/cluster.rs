//! The cluster that a command asks. Nothing of it is made before a command needs it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use kube::config::Kubeconfig;
use kube::{Client, Config};
use kube_access::{kubeconfig, with_causes};

use super::Streams;
use super::istio_flags::{ClusterFlags, USUAL_KUBECONFIG};
use crate::cluster::{hooks, proxy_configs};
use crate::report::hook::HookConfiguration;
use crate::report::inspection::Injector;
use crate::settings::proxy_configs::ProxyConfigs;
use crate::settings::{Process, Settings};
use crate::webhook::reload::config_maps::ConfigMaps;

/// What every command of a cluster is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    /// Which cluster.
    pub(super) flags: &'a ClusterFlags,
    /// The namespace; empty where none is given.
    pub(super) namespace: &'a str,
    /// The control plane's.
    pub(super) control_plane: &'a str,
}

/// A cluster that is asked.
pub(super) struct Cluster {
    pub(super) client: Client,
    /// Its flags and the URL of its API server, for messages.
    pub(super) name: String,
}

/// Runs what a command asks of a cluster, to its end.
pub(super) fn ask<T>(
    flags: &ClusterFlags,
    asks: impl AsyncFnOnce(Cluster) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    // The one provider there is; that somebody has installed it before is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(async {
        let config = config(flags).await?;
        let name = format!("{}, server {}", flags.words(), config.cluster_url);
        let client = Client::try_from(config);
        let client = client.context("making a client for the cluster").context(name.clone())?;
        asks(Cluster { client, name }).await
    })
}

/// Whether the environment names a kubeconfig.
pub(super) fn is_named_by_environment() -> bool {
    std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty())
}

async fn config(flags: &ClusterFlags) -> anyhow::Result<Config> {
    let context = Some(flags.context.as_str()).filter(|context| !context.is_empty());
    let config = match flags.kubeconfig.as_str() {
        "" => match Kubeconfig::read() {
            Ok(kubeconfig) => kubeconfig::resolve(kubeconfig, USUAL_KUBECONFIG, context).await,
            // A pod has a service account instead.
            Err(error) => {
                return Config::incluster()
                    .map_err(|_| anyhow!(with_causes(&error)))
                    .context(NO_KUBECONFIG);
            }
        },
        path => {
            let origin = format!("--kubeconfig {path}");
            kubeconfig::from_file(Path::new(path), &origin, context).await
        }
    };
    Ok(config?)
}

/// The webhook configurations that ask injectors; those that cannot be read are told of.
pub(super) async fn configurations(
    client: &Client,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Vec<HookConfiguration>> {
    let (configurations, wrong) =
        hooks::all(client.clone()).await.context("listing mutatingwebhookconfigurations")?;
    for error in wrong {
        streams.say(&format!("warning: {error}; it is left out"));
    }
    Ok(configurations)
}

/// The injector of every revision that is asked, as far as it is known; where it is not, that is told.
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
                streams.say(&format!(
                    "warning: what revision {revision} injects is not known: {error:#}"
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
    let texts = ConfigMaps::of_revision(namespace, revision).read(client.clone()).await?;
    let own = if revision == "default" { String::new() } else { revision.to_owned() };
    let process = Process { revision: own, native_sidecars: true, ..Process::default() };
    let settings = Arc::new(Settings::parse(&texts.documents(), process)?);
    let proxy_configs = proxy_configs::usable(client.clone(), revision).await;
    let proxy_configs = proxy_configs.unwrap_or_else(|error| {
        streams.say(&format!("warning: ProxyConfig resources do not count: {error}"));
        ProxyConfigs::default()
    });
    Ok(Injector { settings, proxy_configs })
}

const NO_KUBECONFIG: &str = "no cluster: neither --kubeconfig, KUBECONFIG nor ~/.kube/config";
