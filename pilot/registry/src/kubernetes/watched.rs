//! Objects of watches.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ClusterResourceScope, ObjectMeta};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::event::ObjectKey;
use crate::manifest::{InvalidObject, Manifest, Metadata, ObjectDefaults};

/// Manifest with the metadata that a watch needs. Other fields, among them `managedFields`, are
/// skipped while the JSON is parsed.
#[derive(Clone, Debug)]
pub(super) struct Watched<M> {
    metadata: ObjectMeta,
    /// An object that cannot be parsed must not stop the watch of its kind, so it is no error here.
    manifest: Result<M, String>,
}

/// Metadata of any object.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BareMetadata {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BareObject {
    metadata: BareMetadata,
}

impl BareMetadata {
    fn from_parsed(metadata: &mut Metadata) -> Self {
        Self {
            name: metadata.name.as_deref().map(str::to_owned),
            namespace: metadata.namespace.as_deref().map(str::to_owned),
            resource_version: metadata.resource_version.take(),
        }
    }
}

impl<M> Watched<M> {
    /// Version of the object.
    pub(super) fn version(&self) -> Option<String> {
        self.metadata.resource_version.clone()
    }

    /// Name of the object.
    pub(super) fn key(&self) -> ObjectKey {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        ObjectKey::new(text(&self.metadata.namespace), text(&self.metadata.name))
    }
}

impl<M: Manifest> Watched<M> {
    /// Converts the object. `None` if the mesh has no use for it.
    pub(super) fn convert(
        self,
        defaults: &ObjectDefaults,
    ) -> Result<Option<M::Object>, InvalidObject> {
        let key = self.key();
        let manifest =
            self.manifest.map_err(|problem| InvalidObject { kind: M::KIND, key, problem })?;
        manifest.convert(defaults)
    }
}

impl<'de, M: Manifest + DeserializeOwned> Deserialize<'de> for Watched<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let mut manifest = serde_json::from_str::<M>(text.get()).map_err(|error| error.to_string());
        let bare = if let Ok(manifest) = &mut manifest {
            BareMetadata::from_parsed(manifest.metadata())
        } else {
            let bare: BareObject = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
            bare.metadata
        };
        let BareMetadata { name, namespace, resource_version } = bare;
        let metadata = ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, manifest })
    }
}

impl<M: Manifest> Resource for Watched<M> {
    type DynamicType = ();
    /// Objects of all namespaces are watched.
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        M::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        M::API_VERSION.rsplit_once('/').map_or("", |(group, _)| group).into()
    }

    fn version((): &()) -> Cow<'_, str> {
        M::API_VERSION.rsplit_once('/').map_or(M::API_VERSION, |(_, version)| version).into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        M::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::{Value, json};

    use super::*;
    use crate::manifest::ServiceManifest;

    /// Deeper than `serde_json` goes.
    fn deep() -> String {
        "[".repeat(200) + &"]".repeat(200)
    }

    fn service(name: &str, port: &Value) -> String {
        let object = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "shop", "resourceVersion": "7",
                "managedFields": [{"fieldsV1": "DEEP"}]},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": port}]},
        });
        object.to_string().replace("\"DEEP\"", &deep())
    }

    #[test]
    fn invalid_object_is_an_object_without_a_value() {
        let items = [service("web", &json!(80)), service("odd", &json!({"number": 80}))];
        let list = format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"ServiceList\", \"metadata\": \
             {{\"resourceVersion\": \"9\"}}, \"items\": [{}]}}",
            items.join(",")
        );
        let list: ObjectList<Watched<ServiceManifest>> = serde_json::from_str(&list).unwrap();
        let read = |watched: Watched<ServiceManifest>| {
            let (key, version) = (watched.key().to_string(), watched.version().unwrap());
            let converted = watched.convert(&ObjectDefaults::default());
            (key, version, converted.map(|it| it.is_some()).map_err(|error| error.to_string()))
        };
        let mut read_items = list.items.into_iter().map(read);
        assert_eq!(read_items.next().unwrap(), ("shop/web".to_owned(), "7".to_owned(), Ok(true)));
        let (key, version, outcome) = read_items.next().unwrap();
        assert_eq!((key.as_str(), version.as_str()), ("shop/odd", "7"));
        let problem = outcome.unwrap_err();
        assert!(problem.starts_with("Service shop/odd: invalid type: map"), "{problem}");

        let event = format!("{{\"type\": \"MODIFIED\", \"object\": {}}}", items[1]);
        let event: WatchEvent<Watched<ServiceManifest>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(watched) = event else { panic!("{event:?}") };
        assert_eq!(read(watched).0, "shop/odd");
    }
}
