//! Objects of a cluster to analyze.

use std::collections::BTreeSet;

use anyhow::Context;
use injector::analysis::cluster_state::{AnalyzedNamespace, AnalyzedPod};
use injector::cluster::error::ClusterError;
use injector::cluster::{hooks, namespaces, pods};
use injector::kubernetes::webhook_configuration::Hook;
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, Client};
use mesh::istio_kinds::PEER_AUTHENTICATION;
use serde_json::{Value, json};

use super::snapshot::{Snapshot, origin};
use crate::istio_objects;
use crate::progress::Progress;
use crate::workload_kind::WorkloadKind;
use crate::{Streams, cluster};

impl Snapshot {
    /// Adds the objects of the cluster that are not in a file, pods of one namespace or of all.
    pub(super) async fn add_cluster(
        &mut self,
        client: &Client,
        namespace: Option<&str>,
        control_plane: &str,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<()> {
        let listed = namespaces::each(client.clone(), |namespace| {
            let metadata = json!(namespace.metadata);
            let origin = origin("Namespace", &metadata, String::new());
            let labels = metadata["labels"].clone();
            let name = origin.name.clone();
            self.namespaces.entry(name).or_insert(AnalyzedNamespace { origin, labels });
        });
        listed.await.context("listing namespaces")?;
        for object in hooks::objects(client.clone()).await.context(LISTING_WEBHOOKS)? {
            self.add_webhook(&object, String::new());
        }
        self.known = cluster::injectors(client, control_plane, &self.configurations, streams).await;
        self.add_services(client).await?;
        self.add_policies(client, namespace, control_plane).await?;
        self.resolve().await;
        let of_files: BTreeSet<_> = self.pods.iter().map(|one| identity(&one.origin)).collect();
        let mut found = Vec::new();
        let mut take = |kind: &WorkloadKind, mut object: Value| {
            let origin = origin(kind.title, &object["metadata"], String::new());
            if of_files.contains(&identity(&origin)) {
                return;
            }
            let running = kind.template.is_empty();
            let mut pod = object.pointer_mut(kind.template).map(Value::take).unwrap_or_default();
            pod["metadata"]["namespace"] = origin.namespace.clone().into();
            found.push(AnalyzedPod { origin, pod, running });
        };
        let mut progress = Progress::new(streams, "pods");
        let all = pods::each(client.clone(), namespace.into(), PAGE, |pod| {
            progress.count();
            take(WorkloadKind::pod(), pod);
        });
        all.await.context("listing pods")?;
        drop(progress);
        for kind in WorkloadKind::with_templates() {
            let resource = kind.resource();
            let mut progress = Progress::new(streams, "workloads");
            let all = pods::each_workload(
                client.clone(),
                &resource,
                namespace.into(),
                PAGE,
                |workload| {
                    progress.count();
                    take(kind, workload);
                },
            );
            match all.await {
                Err(error) if error.is_forbidden() => {
                    self.notes.push(format!("{} are not analyzed: {error}", resource.plural));
                }
                listed => listed.with_context(|| format!("listing {}", resource.plural))?,
            }
        }
        self.pods.extend(found);
        Ok(())
    }

    /// Adds the Services of webhooks that exist.
    async fn add_services(&mut self, client: &Client) -> anyhow::Result<()> {
        let called = self.hooks().filter_map(Hook::service);
        let called = called.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        for (namespace, name) in called.collect::<BTreeSet<_>>() {
            let api: Api<Service> = Api::namespaced(client.clone(), &namespace);
            let service = api.get_metadata_opt(&name).await.map_err(ClusterError::from);
            let service = service.with_context(|| format!("Service {namespace}/{name}"))?;
            if service.is_some() {
                self.services.insert((namespace, name));
            }
        }
        Ok(())
    }

    /// Adds the policies of mutual TLS of a namespace and of the root namespace, or of all, and the
    /// Services by whose ports they are misread. The objects of files replace them.
    async fn add_policies(
        &mut self,
        client: &Client,
        namespace: Option<&str>,
        root_namespace: &str,
    ) -> anyhow::Result<()> {
        let namespaces = match namespace {
            None => vec![None],
            Some(name) if name == root_namespace => vec![Some(name)],
            Some(name) => vec![Some(name), Some(root_namespace)],
        };
        let of_files: BTreeSet<_> =
            self.policies.objects.iter().map(|(origin, _)| identity(origin)).collect();
        for namespace in namespaces {
            let listed = istio_objects::list(client, &PEER_AUTHENTICATION, namespace).await;
            let objects = match listed {
                Err(error) if error.is_forbidden() => {
                    self.notes.push(format!("PeerAuthentications are not analyzed: {error}"));
                    return Ok(());
                }
                listed => listed.context("listing peerauthentications")?,
            };
            for object in objects {
                let origin = origin("PeerAuthentication", &object["metadata"], String::new());
                if !of_files.contains(&identity(&origin)) {
                    self.policies.objects.push((origin, object));
                }
            }
        }
        let mut policies = self.policies.objects.iter();
        if !policies.any(|(_, object)| object["spec"]["portLevelMtls"].is_object()) {
            return Ok(());
        }
        let api: Api<Service> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let known = self.services.clone();
        let services = match api.list(&ListParams::default()).await.map_err(ClusterError::from) {
            Err(error) if error.is_forbidden() => {
                self.notes.push(format!("portLevelMtls is not compared with Services: {error}"));
                return Ok(());
            }
            listed => listed.context("listing services")?.items,
        };
        for service in services {
            let (of, name) = (service.metadata.namespace.clone(), service.metadata.name.clone());
            if !known.contains(&(of.unwrap_or_default(), name.unwrap_or_default())) {
                self.policies.services.push(json!(service));
            }
        }
        Ok(())
    }

    /// Looks up the host names in the URLs of webhooks.
    async fn resolve(&mut self) {
        let hosts = self.hooks().filter_map(Hook::url_host).filter(|host| !host.is_empty());
        for host in hosts.map(str::to_owned).collect::<BTreeSet<_>>() {
            let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), HTTPS)).await;
            if let Some(error) = found.err() {
                self.unresolved.insert(host.clone(), error.to_string());
            }
        }
    }

    fn hooks(&self) -> impl Iterator<Item = &Hook> {
        self.configurations.iter().flat_map(|configuration| &configuration.hooks)
    }
}

/// Returns the parts of an origin that identify an object.
fn identity(origin: &injector::analysis::message::MessageOrigin) -> [String; 3] {
    [&origin.kind, &origin.namespace, &origin.name].map(String::clone)
}

const LISTING_WEBHOOKS: &str = "listing mutatingwebhookconfigurations";
const HTTPS: u16 = 443;

/// Number of pods in memory before they are reduced.
const PAGE: u32 = 500;
