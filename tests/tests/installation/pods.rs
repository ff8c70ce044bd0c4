//! Pods that are created as a dry run, and the results.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use e2e::wait;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::fixture::Fixture;

/// Pods that are created all the time, until the value is stopped or dropped.
pub(crate) struct Stream {
    tally: Arc<Mutex<Tally>>,
    stop: tokio::sync::watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
}

/// Number of injected pods per image tag, and the errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) by_tag: BTreeMap<String, u64>,
    pub(crate) wrong: Vec<String>,
}

impl Stream {
    /// Creates pods in each of the namespaces in turn, by several clients at once. Each must be
    /// injected.
    pub(crate) fn start(fixture: &Fixture, client: &Client, namespaces: &[&'static str]) -> Self {
        Self::judged(fixture, client, namespaces, tag_of_only_proxy)
    }

    /// Creates pods as [`Stream::start`]. Pods may also stay unchanged; those count as [`BARE`].
    pub(crate) fn of_any(fixture: &Fixture, client: &Client, namespaces: &[&'static str]) -> Self {
        Self::judged(fixture, client, namespaces, |pod| match pod.spec.as_ref() {
            Some(spec) if spec.containers.len() == 1 && spec.init_containers.is_none() => {
                Ok(BARE.to_owned())
            }
            _ => tag_of_only_proxy(pod),
        })
    }

    fn judged(
        fixture: &Fixture,
        client: &Client,
        namespaces: &[&'static str],
        tag: fn(&Pod) -> Result<String>,
    ) -> Self {
        let tally = Arc::<Mutex<Tally>>::default();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let worker = |first: usize| {
            let (client, tally) = (client.clone(), Arc::clone(&tally));
            let (stopped, namespaces) = (stopped.clone(), namespaces.to_vec());
            fixture.runtime.spawn(async move {
                for namespace in namespaces.iter().cycle().skip(first) {
                    if *stopped.borrow() {
                        break;
                    }
                    let created = create(&client, namespace).await;
                    let injected = created.and_then(|pod| tag(&pod));
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    match injected {
                        Ok(tag) => *tally.by_tag.entry(tag).or_default() += 1,
                        Err(error) => tally.wrong.push(format!("{namespace}: {error:#}")),
                    }
                }
            })
        };
        Self { workers: (0..WORKERS).map(worker).collect(), tally, stop }
    }

    /// Waits until this number of further pods were injected with a tag, and none with another one.
    pub(crate) fn until_only(&self, tag: &str, count: u64) -> Result<()> {
        let mut before = self.tally()?;
        wait::until(&format!("pods are injected by {tag} only"), || {
            let now = match self.tally() {
                Ok(now) if now.count(tag) < before.count(tag) + count => {
                    return Err(format!("{before:?}"));
                }
                Ok(now) => now,
                Err(wrong) => return Ok(Err(wrong)),
            };
            if now.all() - now.count(tag) == before.all() - before.count(tag) {
                return Ok(Ok(()));
            }
            Err(format!("{:?}", mem::replace(&mut before, now)))
        })?
    }

    /// Returns the results so far; an error as soon as one pod is wrong.
    pub(crate) fn tally(&self) -> Result<Tally> {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match tally.wrong.first() {
            None => Ok(tally),
            Some(wrong) => bail!("{} pods went wrong, the first: {wrong}", tally.wrong.len()),
        }
    }

    /// Stops creating pods, and waits for the outstanding ones.
    pub(crate) fn stop(mut self, fixture: &Fixture) -> Result<Tally> {
        self.stop.send_replace(true);
        for worker in self.workers.drain(..) {
            fixture.runtime.block_on(worker).context("the pods break off")?;
        }
        self.tally()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
    }
}

impl Tally {
    pub(crate) fn count(&self, tag: &str) -> u64 {
        self.by_tag.get(tag).copied().unwrap_or_default()
    }

    pub(crate) fn all(&self) -> u64 {
        self.by_tag.values().sum()
    }
}

/// Creates a namespace with a label, such as `istio-injection=enabled`.
pub(crate) fn namespace(fixture: &Fixture, name: &str, label: &str) -> Result<()> {
    let (key, value) = label.split_once('=').context("a label has a value")?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
                           "metadata": {"name": name, "labels": {key: value}}});
    fixture.runtime.block_on(fixture.objects.create(&namespace)).map(drop)
}

/// Creates pods until one is injected, and returns the tag of its proxy's image.
pub(crate) async fn until_injected(client: &Client, namespace: &str) -> Result<String> {
    let injected = async || create(client, namespace).await.and_then(|pod| tag_of_only_proxy(&pod));
    wait::until_async("a pod is injected", injected).await
}

pub(crate) async fn create(client: &Client, namespace: &str) -> Result<Pod> {
    let pod = json!({
        "metadata": {"name": "app", "labels": {"app": "app"}},
        // Otherwise a pod may have no token.
        "spec": {"serviceAccountName": "default",
                 "containers": [{"name": "app", "image": "app:1"}]},
    });
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    Ok(pods.create(&parameters, &serde_json::from_value(pod)?).await?)
}

/// Returns the tag of the proxy's image in a pod that was injected exactly once.
pub(crate) fn tag_of_only_proxy(pod: &Pod) -> Result<String> {
    let spec = pod.spec.as_ref().context("the pod has no spec")?;
    let containers: Vec<&Container> =
        spec.init_containers.iter().flatten().chain(&spec.containers).collect();
    let named = |name: &str| containers.iter().filter(|one| one.name == name).count();
    ensure!(named("app") == 1, "{} applications", named("app"));
    let names: Vec<_> = containers.iter().map(|one| &one.name).collect();
    ensure!(named("istio-proxy") == 1 && named("istio-init") == 1, "containers {names:?}");
    ensure!(containers.len() == 3, "containers {names:?}");
    let volumes: Vec<_> = spec.volumes.iter().flatten().map(|one| &one.name).collect();
    let distinct: std::collections::BTreeSet<_> = volumes.iter().collect();
    ensure!(distinct.len() == volumes.len(), "volumes {volumes:?}");
    let annotations = pod.metadata.annotations.as_ref().context("there is no annotation")?;
    ensure!(annotations.contains_key("sidecar.istio.io/status"), "there is no status");
    let proxy = containers.iter().find(|one| one.name == "istio-proxy");
    let image = proxy.and_then(|one| one.image.as_deref()).unwrap_or_default();
    let (_, tag) = image.rsplit_once(':').with_context(|| format!("image {image}"))?;
    Ok(tag.to_owned())
}

/// Used in place of a tag for a pod that was not injected.
pub(crate) const BARE: &str = "bare";
const WORKERS: usize = 3;
