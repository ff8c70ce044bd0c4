//! Configuration from the `ConfigMap`s of the control plane's namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use kube::{Api, Client};

use super::{Text, Texts};
use crate::cluster::error::ClusterError;
use crate::cluster::store::Objects;

/// Names of the `ConfigMap`s.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigMaps {
    /// Namespace of the control plane.
    pub namespace: String,
    /// Name of the map with the documents `config` and `values`.
    pub sidecar: String,
    /// Name of the map with the document `mesh`.
    pub mesh: String,
}

impl ConfigMaps {
    /// Returns the names for a revision. An empty revision and `default` have no suffix.
    pub fn for_revision(namespace: &str, revision: &str) -> Self {
        let name = |base: &str| match revision {
            "" | "default" => base.to_owned(),
            revision => format!("{base}-{revision}"),
        };
        Self { namespace: namespace.to_owned(), sidecar: name(SIDECAR), mesh: name(MESH) }
    }

    /// Reads the documents once. Needs get on both maps.
    pub async fn read(&self, client: Client) -> Result<Texts, ReadError> {
        let api: Api<ConfigMap> = Api::namespaced(client, &self.namespace);
        let data = async |slot| Ok(self.get(&api, slot).await?.and_then(|map| map.data));
        let (sidecar, mesh) = (data(Slot::Sidecar).await?, data(Slot::Mesh).await?);
        self.texts_of(sidecar.as_ref(), mesh.as_ref()).map_err(ReadError::Missing)
    }

    /// Reads once the documents that `given` lacks. Needs get on the maps that contain them; a map
    /// without a missing document is not read. Every document must exist, `mesh` too.
    pub async fn complete(&self, client: Client, given: Texts) -> Result<Texts, ReadError> {
        let api: Api<ConfigMap> = Api::namespaced(client, &self.namespace);
        let Texts { mut inject_config, mut values, mut mesh_config } = given;
        let take = |slot, map: &ConfigMap, key: &str, wanted: &mut Option<Text>| {
            if wanted.is_none() {
                let text = self.text(slot, key, map.data.as_ref()).map_err(ReadError::Missing)?;
                *wanted = Some(text);
            }
            Ok::<(), ReadError>(())
        };
        if inject_config.is_none() || values.is_none() {
            let map = self.get(&api, Slot::Sidecar).await?;
            let map = map.ok_or_else(|| self.no_map(Slot::Sidecar))?;
            take(Slot::Sidecar, &map, "config", &mut inject_config)?;
            take(Slot::Sidecar, &map, "values", &mut values)?;
        }
        if mesh_config.is_none() {
            let map = self.get(&api, Slot::Mesh).await?;
            let map = map.ok_or_else(|| self.no_map(Slot::Mesh))?;
            take(Slot::Mesh, &map, "mesh", &mut mesh_config)?;
        }
        Ok(Texts { inject_config, values, mesh_config })
    }

    async fn get(&self, api: &Api<ConfigMap>, slot: Slot) -> Result<Option<ConfigMap>, ReadError> {
        api.get_opt(self.name(slot)).await.map_err(|source| ReadError::Cluster {
            map: self.full_name(slot),
            source: source.into(),
        })
    }

    fn no_map(&self, slot: Slot) -> ReadError {
        ReadError::Missing(MissingDocument(format!("ConfigMap {}", self.full_name(slot))))
    }

    /// Returns the documents once both maps are known. The error names the missing document.
    pub(crate) fn texts(&self, seen: &ConfigMapStates) -> Result<Option<Texts>, MissingDocument> {
        let ConfigMapStates { sidecar, mesh } = seen;
        if !(sidecar.is_listed() && mesh.is_listed()) {
            return Ok(None);
        }
        self.texts_of(sidecar.known().values().next(), mesh.known().values().next()).map(Some)
    }

    fn texts_of(
        &self,
        sidecar: Option<&Data>,
        mesh: Option<&Data>,
    ) -> Result<Texts, MissingDocument> {
        Ok(Texts {
            inject_config: Some(self.text(Slot::Sidecar, "config", sidecar)?),
            values: Some(self.text(Slot::Sidecar, "values", sidecar)?),
            // Istio uses its defaults without a mesh document, and so does this injector.
            mesh_config: self.text(Slot::Mesh, "mesh", mesh).ok(),
        })
    }

    fn text(&self, slot: Slot, key: &str, data: Option<&Data>) -> Result<Text, MissingDocument> {
        let source = format!("ConfigMap {}, {key}", self.full_name(slot));
        match data.and_then(|data| data.get(key)) {
            Some(text) => Ok(Text { source, text: text.clone() }),
            None => Err(MissingDocument(source)),
        }
    }

    pub(crate) fn name(&self, slot: Slot) -> &str {
        match slot {
            Slot::Sidecar => &self.sidecar,
            Slot::Mesh => &self.mesh,
        }
    }

    pub(crate) fn full_name(&self, slot: Slot) -> String {
        format!("{}/{}", self.namespace, self.name(slot))
    }
}

type Data = BTreeMap<String, String>;

/// Base name of the map with `config` and `values`, before a revision's suffix.
pub const SIDECAR: &str = "istio-sidecar-injector";

/// Base name of the map with `mesh`, before a revision's suffix.
pub const MESH: &str = "istio";

/// Error while reading the documents.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A required document does not exist.
    #[error(transparent)]
    Missing(MissingDocument),
    /// The request for a `ConfigMap` failed.
    #[error("ConfigMap {map}")]
    Cluster {
        /// Namespace and name of the map.
        map: String,
        /// Cause.
        source: ClusterError,
    },
}

/// Required `ConfigMap`, or key of one, that does not exist.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}: missing")]
pub struct MissingDocument(String);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Slot {
    Sidecar,
    Mesh,
}

/// State of both watches, each of one map.
#[derive(Debug, Default)]
pub(crate) struct ConfigMapStates {
    sidecar: Objects<Data>,
    mesh: Objects<Data>,
}

impl ConfigMapStates {
    pub(crate) fn apply(&mut self, slot: Slot, event: Event<ConfigMap>) {
        let maps = match slot {
            Slot::Sidecar => &mut self.sidecar,
            Slot::Mesh => &mut self.mesh,
        };
        maps.apply(event, |map| map.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> ConfigMap {
        let data = entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ConfigMap { data: Some(data), ..ConfigMap::default() }
    }

    #[test]
    fn both_config_maps_are_applied_together() {
        let maps = ConfigMaps::for_revision("istio-system", "canary");
        let mut seen = ConfigMapStates::default();
        seen.apply(Slot::Sidecar, Event::InitApply(map(&[("config", "c"), ("values", "v")])));
        seen.apply(Slot::Sidecar, Event::InitDone);
        assert_eq!(maps.texts(&seen), Ok(None));
        seen.apply(Slot::Mesh, Event::Init);
        seen.apply(Slot::Mesh, Event::InitDone);
        let texts = maps.texts(&seen).unwrap().unwrap();
        let config = texts.inject_config.unwrap();
        assert_eq!(config.source, "ConfigMap istio-system/istio-sidecar-injector-canary, config");
        assert_eq!((config.text.as_str(), texts.mesh_config), ("c", None));
        seen.apply(Slot::Mesh, Event::Apply(map(&[("mesh", "m")])));
        assert_eq!(maps.texts(&seen).unwrap().unwrap().mesh_config.unwrap().text, "m");
    }

    #[test]
    fn missing_config_map_or_key_is_named() {
        let maps = ConfigMaps::for_revision("mesh", "default");
        let mut seen = ConfigMapStates::default();
        seen.apply(Slot::Mesh, Event::InitDone);
        seen.apply(Slot::Sidecar, Event::InitApply(map(&[("config", "c")])));
        seen.apply(Slot::Sidecar, Event::InitDone);
        let message = maps.texts(&seen).unwrap_err().to_string();
        assert_eq!(message, "ConfigMap mesh/istio-sidecar-injector, values: missing");
        // Deleted while the watch was interrupted: the next list does not contain it.
        seen.apply(Slot::Sidecar, Event::Init);
        assert!(maps.texts(&seen).unwrap_err().to_string().contains("values"));
        seen.apply(Slot::Sidecar, Event::InitDone);
        let message = maps.texts(&seen).unwrap_err().to_string();
        assert_eq!(message, "ConfigMap mesh/istio-sidecar-injector, config: missing");
    }
}
