//! Sources of objects and settings: the API server, or files.

mod client;
mod istio_objects;
mod mesh_config;
mod policies;
mod unread;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mesh::istio_kinds::{ISTIO_KINDS, IstioKind, PEER_AUTHENTICATION};
use mesh::spiffe::TrustDomain;
use pilot_registry::event::Event;
use pilot_registry::files::{self, DirectoryUpdate};
use pilot_registry::index::Index;
use pilot_registry::kubernetes::{self, Audited, Watchdog};
use pilot_registry::manifest::ObjectDefaults;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use self::client::client;
use self::istio_objects::Change;
use self::policies::Policies;
use self::unread::Unread;
use crate::args::{DiscoveryArgs, RegistryKind};
use crate::metrics::{EventLabel, KindLabel, Metrics, TypeLabel};
use crate::publish::{Input, Queue};

/// Sink of the sources.
#[derive(Clone, Debug)]
pub struct Sink {
    /// The publisher.
    pub queue: Queue,
    /// Counts of changes.
    pub metrics: Metrics,
    /// Trust domain of the settings; `None` before the first.
    pub trust_domain: watch::Sender<Option<TrustDomain>>,
}

/// Starts the tasks that follow the sources of the flags. They end with the set.
pub async fn follow(args: &DiscoveryArgs, sink: Sink) -> Result<JoinSet<()>> {
    let mut tasks = JoinSet::new();
    let defaults =
        ObjectDefaults { domain: args.domain.as_str().into(), ..ObjectDefaults::default() };
    let mesh = mesh_config::Reader::new(args);
    let allowed = args.allow_unenforced_policies;
    if allowed {
        tracing::warn!(
            "--allow-unenforced-policies: workloads that an AuthorizationPolicy selects are open to \
             all callers"
        );
        sink.settings(Input::AuthorizationPolicies(Vec::new()));
    }
    if let (RegistryKind::Files, Some(directory)) = (args.registries, &args.config_dir) {
        std::fs::read_dir(directory).with_context(|| {
            format!("--configDir {}: name the directory with the YAML files", directory.display())
        })?;
        let (directory, sink_of_files) = (directory.clone(), sink.clone());
        tasks
            .spawn(async move { follow_files(&directory, defaults, allowed, sink_of_files).await });
        if args.mesh_config.is_none() {
            sink.settings(Input::Mesh(mesh.read("")?));
        }
    } else {
        let client = client(args).await?;
        tasks.spawn(policies::watch(client.clone(), sink.clone()));
        for kind in unread_kinds() {
            let objects = Unread::new(kind, allowed);
            tasks.spawn(unread::watch(client.clone(), objects, sink.clone()));
        }
        if args.mesh_config.is_none() {
            let (mesh, client, sink) = (mesh.clone(), client.clone(), sink.clone());
            let revision = args.revision.clone();
            tasks.spawn(async move { mesh.watch(client, &revision, &sink).await });
        }
        let sink = sink.clone();
        tasks.spawn(async move {
            let watchdog = Watchdog::new(sink.clone());
            let offer = |event| sink.registry(event);
            match kubernetes::watch(client, defaults, &watchdog, offer).await {}
        });
    }
    if let Some(file) = args.mesh_config.clone() {
        // Without valid settings the program would never be ready.
        mesh.read_file(&file)?;
        tasks.spawn(async move { mesh.follow_file(&file, &sink).await });
    }
    Ok(tasks)
}

/// Kinds whose objects are watched for what is not done with them.
fn unread_kinds() -> impl Iterator<Item = &'static IstioKind> {
    ISTIO_KINDS.iter().filter(|kind| kind.is_unread_by_discovery())
}

async fn follow_files(directory: &Path, defaults: ObjectDefaults, allowed: bool, sink: Sink) {
    let mut policies = Policies::default();
    let mut unread: Vec<_> = unread_kinds().map(|kind| Unread::new(kind, allowed)).collect();
    let offer = |update: DirectoryUpdate| {
        if let Some(objects) = update.istio {
            let of_kind = |kind: &IstioKind| {
                let objects = objects.iter().filter(|object| kind.is_kind_of(object));
                Change::Replace(objects.cloned().collect())
            };
            policies.take(of_kind(&PEER_AUTHENTICATION), &sink);
            for known in &mut unread {
                known.take(of_kind(known.kind()), &sink);
            }
        }
        update.events.into_iter().for_each(|event| sink.registry(event));
    };
    match files::watch(directory, FILES_INTERVAL, defaults, offer).await {}
}

impl Sink {
    fn registry(&self, event: Event) {
        self.metrics.updates.get_or_create(&TypeLabel::REGISTRY).inc();
        let (r#type, name) = event.names();
        self.metrics.events.get_or_create(&EventLabel { r#type, event: name }).inc();
        self.queue.offer(Input::Registry(Box::new(event)));
    }

    /// Counts an invalid document or object.
    fn rejected(&self, kind: &'static str) {
        self.metrics.rejected.get_or_create(&KindLabel { kind }).inc();
    }

    fn settings(&self, input: Input) {
        self.metrics.updates.get_or_create(&TypeLabel::CONFIG).inc();
        if let Input::Mesh(mesh) = &input {
            self.trust_domain.send_replace(TrustDomain::parse(&mesh.trust_domain).ok());
        }
        self.queue.offer(input);
    }
}

impl Audited for Sink {
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Index) -> T + Send + 'static,
    ) -> Option<T> {
        self.queue.inspect(|publisher| question(publisher.index())).await
    }

    fn count(&self, kind: &'static str, objects: usize) {
        self.metrics.drift.get_or_create(&KindLabel { kind }).add(objects as u64);
    }
}

/// Time between two looks at files.
const FILES_INTERVAL: Duration = Duration::from_secs(1);
