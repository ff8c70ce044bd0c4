//! API servers, and an index that watches the first of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_servers::ApiServers;
use e2e::objects_by_path::ObjectsByPath;
use e2e::wait;
use pilot_registry::event::{Event, Update};
use pilot_registry::files;
use pilot_registry::hostname::Hostname;
use pilot_registry::index::Index;
use pilot_registry::kubernetes::{self, Audited, Watchdog};
use pilot_registry::manifest::ObjectDefaults;
use pilot_registry::snapshot::Snapshot;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

pub(crate) struct Mesh {
    pub(crate) servers: ApiServers,
    objects: [ObjectsByPath; 2],
    watched: Shared,
    watch: AbortHandle,
}

/// Index of the watches. Clones share it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Watched>>);

#[derive(Default)]
struct Watched {
    index: Index,
    /// Changes of single objects are lost.
    loses_changes: bool,
    drift: BTreeMap<&'static str, usize>,
    lists: BTreeMap<&'static str, usize>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, event: Event) {
        let mut watched = self.lock();
        let (kind, action) = event.names();
        let is_list = action == "list";
        if is_list {
            *watched.lists.entry(kind).or_default() += 1;
        }
        if is_list || !watched.loses_changes {
            watched.index.apply(event);
        }
    }
}

impl Audited for Shared {
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Index) -> T + Send + 'static,
    ) -> Option<T> {
        Some(question(&self.lock().index))
    }

    fn count(&self, kind: &'static str, objects: usize) {
        *self.lock().drift.entry(kind).or_default() += objects;
    }
}

/// Starts to watch the first API server.
async fn watch(servers: &ApiServers, settling: Duration) -> Result<(Shared, AbortHandle)> {
    let (watched, client) = (Shared::default(), servers.admin(0).await?);
    let shared = watched.clone();
    let watching = tokio::spawn(async move {
        let watchdog = Watchdog { index: shared.clone(), period: PERIOD, settling };
        let defaults = ObjectDefaults::default();
        kubernetes::watch(client, defaults, &watchdog, |event| shared.offer(event)).await
    });
    Ok((watched, watching.abort_handle()))
}

impl Mesh {
    pub(crate) async fn start(servers: ApiServers) -> Result<Self> {
        let objects =
            [ObjectsByPath::new(&servers, 0).await?, ObjectsByPath::new(&servers, 1).await?];
        let (watched, watch) = watch(&servers, SETTLING).await?;
        let mesh = Self { servers, objects, watched, watch };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        mesh.apply(0, "/api/v1/namespaces/shop", &namespace).await?;
        for (node, zone) in [("n1", "z1"), ("n2", "z2")] {
            mesh.node(node, zone).await?;
        }
        Ok(mesh)
    }

    /// Replaces index and watches by new ones, whose watchdog compares again after this time.
    pub(crate) async fn watch_again(&mut self, settling: Duration) -> Result<()> {
        self.watch.abort();
        (self.watched, self.watch) = watch(&self.servers, settling).await?;
        self.settled(0).await
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.watched.lock().index.snapshot()
    }

    /// Loses changes of single objects, or stops to.
    pub(crate) fn lose_changes(&self, loses: bool) {
        self.watched.lock().loses_changes = loses;
    }

    /// Objects that the watchdog has found to differ, by kind.
    pub(crate) fn drift(&self) -> BTreeMap<&'static str, usize> {
        self.watched.lock().drift.clone()
    }

    /// Number of lists of a kind that the index has taken.
    pub(crate) fn lists(&self, kind: &str) -> usize {
        self.watched.lock().lists.get(kind).copied().unwrap_or_default()
    }

    /// Addresses and zones of the service `web`.
    pub(crate) fn web(&self) -> Result<Vec<(String, String)>> {
        let hostname = Hostname::parse("web.shop.svc.cluster.local")?;
        let snapshot = self.snapshot();
        let set = snapshot.endpoints(&hostname, 80).context("the service is unknown")?;
        let text = set.endpoints.iter();
        Ok(text.map(|it| (it.address.to_string(), it.locality.zone.to_string())).collect())
    }

    /// Waits until the snapshot is the one of the lists of an API server.
    pub(crate) async fn settled(&self, server: usize) -> Result<()> {
        let compare = async || {
            let (listed, known) = (self.listed(server).await?, self.snapshot());
            ensure!(
                listed == known,
                "the lists say {}, the watches {}",
                summary(&listed),
                summary(&known)
            );
            Ok(())
        };
        wait::until_async("the watches know what the lists say", compare).await
    }

    /// Waits for a condition; an error of the condition is none to wait for.
    pub(crate) async fn until(
        &self,
        what: &str,
        mut holds: impl AsyncFnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let probe = async || match holds(self).await {
            Ok(false) => Err("it does not hold"),
            Ok(true) => Ok(Ok(())),
            Err(error) => Ok(Err(error)),
        };
        wait::until_async(what, probe).await?
    }

    async fn listed(&self, server: usize) -> Result<Snapshot> {
        let mut index = Index::default();
        for (path, api_version, kind) in LISTS {
            let mut list = self.get(server, path).await?;
            let items = list["items"].as_array_mut().context("a list has items")?;
            for item in &mut *items {
                item["apiVersion"] = api_version.into();
                item["kind"] = kind.into();
                item["metadata"]["managedFields"] = Value::Null;
            }
            let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
            let objects = files::parse(&list.to_string(), &ObjectDefaults::default())?.objects;
            index.apply(match kind {
                "Namespace" => Event::Namespaces(replace(objects.namespaces.into_values())),
                "Node" => Event::Nodes(replace(objects.nodes.into_values())),
                "Pod" => Event::Pods(replace(objects.pods.into_values())),
                "EndpointSlice" => Event::Slices(replace(objects.slices.into_values())),
                _ => Event::Services(replace(objects.services.into_values())),
            });
        }
        Ok(index.snapshot())
    }

    pub(crate) async fn get(&self, server: usize, path: &str) -> Result<Value> {
        self.objects[server].get(path).await
    }

    /// Creates or changes an object.
    pub(crate) async fn apply(&self, server: usize, path: &str, object: &Value) -> Result<()> {
        self.objects[server].apply(path, object).await
    }

    /// Deletes an object, if it is there.
    pub(crate) async fn delete(&self, server: usize, path: &str) -> Result<()> {
        self.objects[server].delete(path).await
    }

    pub(crate) async fn node(&self, name: &str, zone: &str) -> Result<()> {
        let labels =
            json!({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": zone});
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels}});
        self.apply(0, &format!("/api/v1/nodes/{name}"), &node).await
    }

    pub(crate) async fn service(&self, server: usize, name: &str, port: u16) -> Result<()> {
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"selector": {"app": name}, "ports": [
                {"name": "http", "port": port, "protocol": "TCP", "targetPort": "http"}]}});
        self.apply(server, &format!("/api/v1/namespaces/shop/services/{name}"), &service).await
    }

    /// Creates a pod of a service, or changes its status.
    pub(crate) async fn pod(
        &self,
        server: usize,
        name: &str,
        app: &str,
        address: &str,
        phase: &str,
    ) -> Result<()> {
        let path = format!("/api/v1/namespaces/shop/pods/{name}");
        let node = if name.ends_with(['1', '3', '5', '7', '9']) { "n1" } else { "n2" };
        let container = json!({"name": "app", "image": "app",
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": [container]}});
        self.apply(server, &path, &pod).await?;
        let ready = if phase == "Running" { "True" } else { "False" };
        let status = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop"},
            "status": {"phase": phase, "podIP": address, "podIPs": [{"ip": address}],
                "conditions": [{"type": "Ready", "status": ready}]}});
        self.apply(server, &format!("{path}/status"), &status).await
    }

    pub(crate) async fn slice(
        &self,
        server: usize,
        name: &str,
        addresses: &[String],
    ) -> Result<()> {
        let endpoints = addresses.iter().map(|it| json!({"addresses": [it]})).collect::<Vec<_>>();
        let labels = json!({"kubernetes.io/service-name": "web"});
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": "shop", "labels": labels},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": endpoints});
        self.apply(server, &format!("{SLICES}/{name}"), &slice).await
    }

    /// Deletes all services, slices and pods of the namespace.
    pub(crate) async fn clear(&self) -> Result<()> {
        for path in [SERVICES, PODS, SLICES] {
            let list = self.get(0, path).await?;
            for item in list["items"].as_array().context("a list has items")? {
                let name = item["metadata"]["name"].as_str().context("an object has a name")?;
                self.delete(0, &format!("{path}/{name}")).await?;
            }
        }
        Ok(())
    }
}

fn replace<T>(objects: impl Iterator<Item = T>) -> Update<T> {
    Update::Replace(objects.collect())
}

fn summary(snapshot: &Snapshot) -> String {
    let sets = snapshot.services().map(|service| {
        let ports = service.ports.iter().map(|port| port.number);
        let sets = ports.filter_map(|port| snapshot.endpoints(&service.hostname, port));
        (service.hostname.as_str(), sets.map(|set| set.endpoints.len()).collect::<Vec<_>>())
    });
    let workloads: Vec<_> = snapshot.workloads().map(|it| (&it.name, &it.addresses)).collect();
    format!("{:?} {workloads:?}", sets.collect::<Vec<_>>())
}

pub(crate) const SERVICES: &str = "/api/v1/namespaces/shop/services";
pub(crate) const PODS: &str = "/api/v1/namespaces/shop/pods";
pub(crate) const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";

const LISTS: [(&str, &str, &str); 5] = [
    ("/api/v1/namespaces", "v1", "Namespace"),
    ("/api/v1/nodes", "v1", "Node"),
    ("/api/v1/pods", "v1", "Pod"),
    ("/apis/discovery.k8s.io/v1/endpointslices", "discovery.k8s.io/v1", "EndpointSlice"),
    ("/api/v1/services", "v1", "Service"),
];

/// Comparisons take place during all stories.
const PERIOD: Duration = Duration::from_millis(200);
/// More than a watch needs to be open again after its API server was restarted.
const SETTLING: Duration = Duration::from_secs(10);
