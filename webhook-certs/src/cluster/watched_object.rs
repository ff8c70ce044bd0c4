//! Objects of watches.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// Object of the kind `K`, with the fields that the watches need. Others are skipped while the JSON
/// is parsed: whoever may write an object may write `managedFields` that are nested too deep for the
/// parser, and one such object would stop the watch for all namespaces.
#[derive(Clone, Debug)]
pub(super) struct WatchedObject<K> {
    pub(super) metadata: ObjectMeta,
    /// Data of a `ConfigMap`.
    pub(super) data: Option<BTreeMap<String, String>>,
    kind: PhantomData<K>,
}

#[derive(Deserialize)]
struct Parts {
    metadata: Metadata,
    data: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
}

impl<'de, K> Deserialize<'de> for WatchedObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parts { metadata, data } = Parts::deserialize(deserializer)?;
        let Metadata { name, namespace, resource_version, deletion_timestamp, labels } = metadata;
        let metadata = ObjectMeta {
            name,
            namespace,
            resource_version,
            deletion_timestamp,
            labels,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, data, kind: PhantomData })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for WatchedObject<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
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
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectList;

    use super::*;

    #[test]
    fn deep_managed_fields_do_not_stop_a_list() {
        let deep = "{\"f:a\":".repeat(200) + "{}" + &"}".repeat(200);
        let list = format!(
            "{{\"metadata\": {{}}, \"items\": [{{\"metadata\": {{\"name\": \"roots\", \
             \"managedFields\": [{{\"fieldsV1\": {deep}}}]}}, \"data\": {{\"a\": \"b\"}}}}]}}"
        );
        assert!(serde_json::from_str::<ObjectList<ConfigMap>>(&list).is_err());
        let list: ObjectList<WatchedObject<ConfigMap>> = serde_json::from_str(&list).unwrap();
        let map = &list.items[0];
        assert_eq!(map.metadata.name.as_deref(), Some("roots"));
        assert_eq!(map.data.as_ref().unwrap()["a"], "b");
    }
}
