//! Watch of the objects of one of Istio's kinds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use kube::core::{
    ApiResource, ClusterResourceScope, DynamicObject, GroupVersionKind, ObjectMeta, Resource,
};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use kube_access::with_causes;
use mesh::istio_kinds::{Access, IstioKind};
use pilot_registry::event::ObjectKey;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::sleep;

/// Change of the objects of a kind.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// All objects; none if the cluster does not know the kind.
    Replace(Vec<Value>),
    /// An object was added or changed.
    Apply(Value),
    /// An object was deleted.
    Delete(ObjectKey),
}

/// Name of an object.
pub(super) fn key(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

/// Watches the objects of a kind, for ever. Until they were listed, there is no change.
pub(super) async fn watch(client: Client, kind: &IstioKind, mut offer: impl FnMut(Change)) {
    let mut is_failing = false;
    loop {
        for version in kind.versions {
            follow(&client, kind, version, &mut is_failing, &mut offer).await;
        }
        offer(Change::Replace(Vec::new()));
        sleep(pause(kind)).await;
    }
}

/// Watches the objects by one version of the API. Returns when the cluster does not know it.
async fn follow(
    client: &Client,
    kind: &IstioKind,
    version: &str,
    is_failing: &mut bool,
    offer: &mut impl FnMut(Change),
) {
    let resource = GroupVersionKind::gvk(kind.group, version, kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&resource, kind.plural);
    let api: Api<IstioObject> = Api::all_with(client.clone(), &resource);
    let config = watcher::Config::default().timeout(WATCH_TIMEOUT);
    let mut events = Box::pin(kube::runtime::watcher(api, config));
    let mut listing = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listing.clear(),
            Ok(Event::InitApply(object)) => listing.push(object.into_value(&resource)),
            Ok(Event::InitDone) => offer(Change::Replace(std::mem::take(&mut listing))),
            Ok(Event::Apply(object)) => offer(Change::Apply(object.into_value(&resource))),
            Ok(Event::Delete(object)) => offer(Change::Delete(object.key())),
            Err(error) if has_code(&error, 404) => return,
            Err(error) => {
                let is_forbidden = has_code(&error, 403);
                if !std::mem::replace(is_failing, true) {
                    let error = with_causes(&error);
                    let hint = if is_forbidden { "; hint: grant list and watch" } else { "" };
                    tracing::warn!(
                        resource = resource.plural,
                        error,
                        "watch failed; the last known objects stay{hint}"
                    );
                }
                sleep(if is_forbidden { pause(kind) } else { PAUSE }).await;
                continue;
            }
        }
        *is_failing = false;
    }
}

/// Time until a cluster without the kind, or without the right to it, is asked again.
fn pause(kind: &IstioKind) -> Duration {
    match kind.access {
        Access::Opens => Duration::from_secs(10),
        Access::Stays => Duration::from_secs(60),
    }
}

fn has_code(error: &watcher::Error, code: u16) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};

    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status)) => status.code == code,
        _ => false,
    }
}

/// Object of Istio. Only its metadata must be parsed: an object of one namespace, whatever is in
/// it, must not stop the watch for all. Other fields, among them `managedFields`, are skipped.
#[derive(Clone, Debug)]
struct IstioObject {
    watched: ObjectMeta,
    metadata: Value,
    spec: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
}

impl<'de> Deserialize<'de> for IstioObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Parts {
            metadata: Metadata,
            spec: Option<Box<RawValue>>,
        }
        let Parts { metadata, spec } = Parts::deserialize(deserializer)?;
        let metadata_value = json!({
            "name": metadata.name,
            "namespace": metadata.namespace,
            "creationTimestamp": metadata.creation_timestamp,
            "annotations": metadata.annotations,
        });
        let watched = ObjectMeta {
            name: Some(metadata.name),
            namespace: metadata.namespace,
            resource_version: metadata.resource_version,
            ..ObjectMeta::default()
        };
        let spec = spec.map(|text| serde_json::from_str(text.get()));
        let spec = spec.unwrap_or(Ok(Value::Null)).unwrap_or_else(|_| UNREADABLE.into());
        Ok(Self { watched, metadata: metadata_value, spec })
    }
}

impl IstioObject {
    fn key(&self) -> ObjectKey {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        ObjectKey::new(text(&self.watched.namespace), text(&self.watched.name))
    }

    fn into_value(self, resource: &ApiResource) -> Value {
        json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": self.metadata,
            "spec": self.spec,
        })
    }
}

impl Resource for IstioObject {
    type DynamicType = ApiResource;
    type Scope = ClusterResourceScope;

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(resource)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(resource)
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(resource)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(resource)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.watched
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.watched
    }
}

/// Specification in place of one that cannot be parsed. No kind has a text there.
const UNREADABLE: &str = "unreadable";
/// Seconds after which a watch is opened anew.
const WATCH_TIMEOUT: u32 = 290;
const PAUSE: Duration = Duration::from_secs(1);
