//! Publication of the roots of workloads: a `ConfigMap` in every namespace of the revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::{self, Stream, StreamExt};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use kube_access::with_causes;

use super::api::within;
use super::call_error::CallError;
use super::watched_object::WatchedObject;
use super::writes::{WriteError, Writes};
use crate::bundle::Bundle;
use crate::options::Options;
use crate::rotation::PublishedRoots;

/// The `ConfigMaps`, kept up to date by watches.
pub(super) struct RootConfigMaps {
    client: Client,
    field_manager: String,
    revision: String,
    timeout: Duration,
    namespaces: Store<WatchedObject<Namespace>>,
    tags: Store<WatchedObject<MutatingWebhookConfiguration>>,
    maps: Store<WatchedObject<ConfigMap>>,
    watched: Arc<Watched>,
    /// Version that each recent write has replaced, and the instant of the write.
    written: Mutex<BTreeMap<String, (Option<String>, Instant)>>,
}

/// Progress of the watches.
#[derive(Default)]
struct Watched {
    /// Changes of the roots in existing `ConfigMaps`.
    changes: AtomicI64,
    /// Watches that have not listed their objects, with the latest error of each.
    pending: Mutex<BTreeMap<&'static str, Option<String>>>,
}

/// `ConfigMaps` at one instant.
pub(super) struct Snapshot {
    /// Namespace, and version and roots of its `ConfigMap`.
    maps: BTreeMap<String, Option<(Option<String>, String)>>,
    changes: i64,
}

impl RootConfigMaps {
    /// Makes the watches, which run while the stream is polled. It yields after each change.
    pub(super) fn new(
        client: &Client,
        options: &Options,
    ) -> (Self, impl Stream<Item = ()> + use<>) {
        let watched = Arc::new(Watched {
            changes: AtomicI64::default(),
            pending: Mutex::new([NAMESPACES, TAGS, MAPS].map(|kind| (kind, None)).into()),
        });
        let (namespaces, writer) = reflector::store();
        let api: Api<WatchedObject<Namespace>> = Api::all(client.clone());
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let seen = Arc::clone(&watched);
        let changed_namespaces =
            reflector::reflector(writer, events).map(move |event| seen.note(NAMESPACES, event));

        let (tags, writer) = reflector::store();
        let api: Api<WatchedObject<MutatingWebhookConfiguration>> = Api::all(client.clone());
        let events = watcher(api, watcher::Config::default().labels(TAG_LABEL)).default_backoff();
        let seen = Arc::clone(&watched);
        let changed_tags =
            reflector::reflector(writer, events).map(move |event| seen.note(TAGS, event));

        let (maps, writer) = reflector::store();
        let api: Api<WatchedObject<ConfigMap>> = Api::all(client.clone());
        let config = watcher::Config::default().fields(&format!("metadata.name={ROOTS_NAME}"));
        let (known, counted) = (maps.clone(), Arc::clone(&watched));
        let events = watcher(api, config).default_backoff().inspect(move |event| {
            if let Ok(Event::Apply(map) | Event::InitApply(map)) = event {
                let before = known.get(&ObjectRef::from_obj(map));
                let is_changed = before.is_some_and(|before| before.data != map.data);
                counted.changes.fetch_add(i64::from(is_changed), Ordering::Relaxed);
            }
        });
        let seen = Arc::clone(&watched);
        let changed_maps =
            reflector::reflector(writer, events).map(move |event| seen.note(MAPS, event));

        let roots = Self {
            client: client.clone(),
            field_manager: options.field_manager(),
            revision: options.revision().to_owned(),
            timeout: options.parameters.call_timeout,
            namespaces,
            tags,
            maps,
            watched,
            written: Mutex::default(),
        };
        let changed = stream::select(changed_namespaces, changed_tags);
        (roots, stream::select(changed, changed_maps))
    }

    /// `ConfigMaps` of the revision's namespaces; `None` until the watches have listed all, with
    /// the error of a watch appended to `errors`.
    pub(super) fn snapshot(&self, errors: &mut Vec<String>) -> Option<Snapshot> {
        let pending = self.watched.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if !pending.is_empty() {
            errors.extend(pending.iter().filter_map(|(kind, reason)| {
                let reason = reason.as_ref()?;
                Some(format!("the roots of workloads cannot be published: {kind}: {reason}"))
            }));
            return None;
        }
        let changes = self.watched.changes.load(Ordering::Relaxed);
        let namespaces = self.namespaces.state();
        let tags = Tags::new(&self.tags.state());
        let managed =
            namespaces.iter().filter(|namespace| is_managed(namespace, &tags, &self.revision));
        let maps = managed.map(|namespace| {
            let name = namespace.name_any();
            let map = self.maps.get(&ObjectRef::new(ROOTS_NAME).within(&name));
            let roots = map.map(|map| {
                let roots = map.data.as_ref().and_then(|data| data.get(ROOTS_KEY));
                (map.resource_version(), roots.cloned().unwrap_or_default())
            });
            (name, roots)
        });
        Some(Snapshot { maps: maps.collect(), changes })
    }

    /// Publishes `roots` where the snapshot has others.
    ///
    /// A `ConfigMap` that changed since the snapshot is not written: `roots` are read after the
    /// snapshot, so another replica may know newer ones.
    pub(super) async fn publish(
        &self,
        snapshot: Snapshot,
        roots: &Bundle,
        writes: &mut Writes<'_>,
    ) -> Publication {
        let text = roots.to_pem();
        writes.retain(|object| match object.strip_prefix(PATH) {
            Some(namespace) => snapshot.maps.contains_key(namespace),
            None => true,
        });
        let mut published = Publication::default();
        let mut due = Vec::new();
        for (namespace, map) in snapshot.maps {
            let version = match map {
                Some((_, found)) if holds(&found, &text, roots) => continue,
                Some((version, _)) => version,
                None => None,
            };
            if let Some(wait) = self.awaited(&namespace, version.as_ref()) {
                published.wait = published.wait.into_iter().chain([wait]).min();
                continue;
            }
            match writes.spend(PATCH, path(&namespace)) {
                Ok(()) => due.push((namespace, version)),
                Err(error) => published.reject(&error),
            }
        }
        let calls = due.into_iter().map(|(namespace, version)| {
            let patch = self.patch(namespace.clone(), version.clone(), &text);
            async move { (namespace, version, patch.await) }
        });
        let mut done = stream::iter(calls).buffer_unordered(CONCURRENT);
        while let Some((namespace, version, outcome)) = done.next().await {
            writes.record_forbidden(PATCH, &path(&namespace), outcome.as_ref().err());
            match outcome {
                Ok(()) => tracing::info!(namespace, "the roots of workloads were published"),
                // The watch brings what another writer wrote.
                Err(error) if error.is_conflict() => tracing::debug!("waiting: {error}"),
                Err(error) => {
                    published.errors.push(error.to_string());
                    continue;
                }
            }
            self.written().insert(namespace, (version, Instant::now()));
        }
        published
    }

    /// Time to wait for the watch, if the version has just been replaced by a write.
    ///
    /// A second write would conflict, and spend the budget.
    fn awaited(&self, namespace: &str, version: Option<&String>) -> Option<Duration> {
        let mut written = self.written();
        written.retain(|_, (_, at)| at.elapsed() < WATCH_DELAY);
        let (replaced, at) = written.get(namespace)?;
        (replaced.as_ref() == version).then(|| WATCH_DELAY.saturating_sub(at.elapsed()))
    }

    fn written(&self) -> MutexGuard<'_, BTreeMap<String, (Option<String>, Instant)>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn patch(
        &self,
        namespace: String,
        version: Option<String>,
        text: &str,
    ) -> Result<(), CallError> {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(ROOTS_NAME.to_owned()),
                labels: Some([("istio.io/config".to_owned(), "true".to_owned())].into()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            data: Some([(ROOTS_KEY.to_owned(), text.to_owned())].into()),
            ..ConfigMap::default()
        };
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &namespace);
        let parameters = PatchParams::apply(&self.field_manager).force();
        let patch = Patch::Apply(map);
        let call = api.patch(ROOTS_NAME, &parameters, &patch);
        within(self.timeout, PATCH, path(&namespace), call).await.map(drop)
    }
}

impl Snapshot {
    /// Roots in one namespace; `None` without a `ConfigMap` there.
    pub(super) fn of_namespace(&self, namespace: &str) -> Option<Bundle> {
        let (_, roots) = self.maps.get(namespace)?.as_ref()?;
        Some(Bundle::observed(roots.as_bytes()))
    }

    /// Roots for decisions about the CA.
    pub(super) fn published(&self) -> PublishedRoots {
        let mut texts: Vec<_> = self.maps.values().flatten().map(|(_, roots)| roots).collect();
        texts.sort_unstable();
        texts.dedup();
        let bundles = texts.into_iter().map(|roots| Bundle::observed(roots.as_bytes())).collect();
        PublishedRoots { bundles, changes: self.changes }
    }
}

impl Watched {
    fn note<K>(&self, kind: &'static str, event: Result<Event<K>, watcher::Error>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(Event::InitDone) => drop(pending.remove(kind)),
            // A watch that breaks later keeps what it has seen, and lists again.
            Err(error) => {
                tracing::debug!(%error, "a watch was interrupted");
                let error = with_causes(&error);
                pending.entry(kind).and_modify(|reason| *reason = Some(error));
            }
            Ok(_) => {}
        }
    }
}

/// Result of publishing roots.
#[derive(Default)]
pub(super) struct Publication {
    /// Time until a pending write can be made.
    pub(super) wait: Option<Duration>,
    pub(super) errors: Vec<String>,
}

impl Publication {
    fn reject(&mut self, error: &WriteError) {
        if let WriteError::Budget { wait, .. } = error {
            self.wait = self.wait.into_iter().chain([*wait]).min();
        }
        self.errors.push(error.to_string());
    }
}

/// True if the roots in a `ConfigMap` are those of `bundle`, of which the first signs. An invalid
/// block makes Envoy reject all of them.
fn holds(found: &str, text: &str, bundle: &Bundle) -> bool {
    let first = |bundle: &Bundle| bundle.certificates().first().cloned();
    found == text
        || Bundle::parse(found.as_bytes())
            .is_ok_and(|found| found.is_same_set(bundle) && first(&found) == first(bundle))
}

/// Revisions by the tags that stand for them: labels of the injector's webhook configurations.
#[derive(Default)]
struct Tags(BTreeMap<String, BTreeSet<String>>);

impl Tags {
    fn new(configurations: &[Arc<WatchedObject<MutatingWebhookConfiguration>>]) -> Self {
        let mut tags = Self::default();
        for configuration in configurations {
            let label = |name| configuration.labels().get(name).cloned();
            if let (Some(tag), Some(revision)) = (label(TAG_LABEL), label(REVISION_LABEL)) {
                tags.0.entry(tag).or_default().insert(revision);
            }
        }
        tags
    }

    /// True if the revision is the one and only of a name. A tag goes before a revision of its
    /// name, and one that stands for two revisions is neither's.
    fn means(&self, name: &str, revision: &str) -> bool {
        match self.0.get(name) {
            Some(revisions) => revisions.iter().eq([revision]),
            None => name == revision,
        }
    }
}

/// True if the revision's control plane writes into the namespace. As for injection, the label
/// `istio-injection=enabled` means the default revision, as does a namespace without labels.
fn is_managed(namespace: &WatchedObject<Namespace>, tags: &Tags, revision: &str) -> bool {
    let metadata = &namespace.metadata;
    let label = |name| metadata.labels.as_ref().and_then(|labels| labels.get(name));
    let owner = match label("istio-injection").map(String::as_str) {
        Some("enabled") => None,
        _ => label(REVISION_LABEL).map(String::as_str),
    };
    let name = metadata.name.as_deref().unwrap_or_default();
    tags.means(owner.unwrap_or("default"), revision)
        && metadata.deletion_timestamp.is_none()
        && !WITHOUT_WORKLOADS.contains(&name)
}

fn path(namespace: &str) -> String {
    format!("{PATH}{namespace}")
}

/// Name of the `ConfigMap`, which the injector mounts.
const ROOTS_NAME: &str = "istio-ca-root-cert";
const ROOTS_KEY: &str = "root-cert.pem";
const PATH: &str = "configmaps/istio-ca-root-cert in namespace ";
const PATCH: &str = "patch";
const NAMESPACES: &str = "namespaces";
const MAPS: &str = "configmaps";
const TAGS: &str = "mutatingwebhookconfigurations";
const REVISION_LABEL: &str = "istio.io/rev";
const TAG_LABEL: &str = "istio.io/tag";
/// Namespaces in which Istio publishes no roots.
const WITHOUT_WORKLOADS: [&str; 3] = ["kube-node-lease", "kube-public", "local-path-storage"];
/// Longest time for which a write is awaited in the watch.
const WATCH_DELAY: Duration = Duration::from_secs(2);
/// Concurrent writes: a rotation changes all namespaces at once.
const CONCURRENT: usize = 8;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn namespaces_of_other_revisions_are_not_managed() {
        let managed = |name: &str, labels: Value| {
            let namespace = json!({"metadata": {"name": name, "labels": labels}});
            let namespace = serde_json::from_value(namespace).unwrap();
            let tags = Tags::default();
            ["default", "canary"].map(|revision| is_managed(&namespace, &tags, revision))
        };
        assert_eq!(managed("shop", json!({})), [true, false]);
        assert_eq!(managed("shop", json!({"istio-injection": "enabled"})), [true, false]);
        assert_eq!(managed("shop", json!({"istio.io/rev": "default"})), [true, false]);
        assert_eq!(managed("shop", json!({"istio.io/rev": "canary"})), [false, true]);
        assert_eq!(managed("shop", json!({"istio.io/rev": "blue"})), [false, false]);
        assert_eq!(
            managed("shop", json!({"istio.io/rev": "canary", "istio-injection": "enabled"})),
            [true, false]
        );
        assert_eq!(
            managed("shop", json!({"istio.io/rev": "canary", "istio-injection": "disabled"})),
            [false, true]
        );
        assert_eq!(managed("kube-public", json!({})), [false, false]);
        let terminating = json!({"metadata": {"name": "shop",
            "deletionTimestamp": "2026-11-23T15:00:00Z"}});
        let terminating = serde_json::from_value(terminating).unwrap();
        assert!(!is_managed(&terminating, &Tags::default(), "default"));
    }

    #[test]
    fn namespaces_of_a_tag_are_its_revisions() {
        let configuration = |tag: &str, revision: &str| {
            let labels = json!({"istio.io/tag": tag, "istio.io/rev": revision});
            let found = json!({"metadata": {"name": tag, "labels": labels}});
            Arc::new(serde_json::from_value(found).unwrap())
        };
        let managed = |tags: &[(&str, &str)], labels: Value| {
            let tags: Vec<_> = tags.iter().map(|(tag, of)| configuration(tag, of)).collect();
            let namespace = json!({"metadata": {"name": "shop", "labels": labels}});
            let namespace = serde_json::from_value(namespace).unwrap();
            let tags = Tags::new(&tags);
            ["default", "canary"].map(|revision| is_managed(&namespace, &tags, revision))
        };
        let prod = json!({"istio.io/rev": "prod"});
        assert_eq!(managed(&[("prod", "canary")], prod.clone()), [false, true]);
        assert_eq!(managed(&[("prod", "1-28")], prod.clone()), [false, false]);
        assert_eq!(managed(&[("prod", "default"), ("prod", "canary")], prod), [false, false]);
        // The default tag takes the namespaces without a revision from the default one.
        assert_eq!(managed(&[("default", "canary")], json!({})), [false, true]);
        let enabled = json!({"istio-injection": "enabled"});
        assert_eq!(managed(&[("default", "canary")], enabled), [false, true]);
    }
}
