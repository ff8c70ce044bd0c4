//! Versions of the cluster's objects that belong to a mesh.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::fixture::Fixture;

/// Version of each object by kind, namespace and name.
pub(super) struct ObjectVersions(BTreeMap<String, String>);

impl ObjectVersions {
    /// Lists the objects, to which those of istiod's election and the roots belong.
    pub(super) fn now(fixture: &Fixture) -> Result<Self> {
        let objects = Self::list(fixture)?;
        let found = objects.0.keys().map(String::as_str).collect::<Vec<_>>().join(" ");
        for name in ["istio-ours/istio-ca-root-cert", "istio-system/istio-leader"] {
            ensure!(found.contains(name), "no {name} among {found}");
        }
        Ok(objects)
    }

    /// Checks that each of the objects is as it was.
    pub(super) fn are_unchanged(&self, fixture: &Fixture) -> Result<()> {
        let now = Self::list(fixture)?;
        let changed = self.0.iter().filter(|(name, version)| now.0.get(*name) != Some(version));
        let changed: Vec<_> = changed.map(|(name, old)| (name, old, now.0.get(name))).collect();
        ensure!(changed.is_empty(), "changed: {changed:#?}");
        Ok(())
    }

    fn list(fixture: &Fixture) -> Result<Self> {
        let list = ["get", KINDS, "--all-namespaces", "--output=json", "--show-managed-fields"];
        let list: Value = serde_json::from_str(&fixture.kubectl().must(list)?)?;
        let items = list["items"].as_array().context("no list")?.iter();
        let objects = items.filter_map(|object| {
            let metadata = &object["metadata"];
            let text = |key| metadata[key].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap_or_default();
            let is_of_mesh = match text("namespace") {
                "" => !kind.starts_with("ClusterRole") || text("name").contains("istio"),
                namespace => namespace.starts_with("istio"),
            };
            let name = format!("{kind} {}/{}", text("namespace"), text("name"));
            is_of_mesh.then(|| (name, version(object)))
        });
        Ok(Self(objects.collect()))
    }
}

/// Version of an object. That of an election is its writers and its leader, who renews it.
fn version(object: &Value) -> String {
    let metadata = &object["metadata"];
    let leader: Option<Value> =
        metadata["annotations"][LEADER].as_str().and_then(|text| serde_json::from_str(text).ok());
    let resource = match leader {
        Some(leader) => {
            let fields = metadata["managedFields"].as_array().into_iter().flatten();
            let managers: Vec<_> = fields.map(|it| it["manager"].to_string()).collect();
            format!("{managers:?} {}", leader["holderIdentity"])
        }
        None => metadata["resourceVersion"].to_string(),
    };
    format!("{} {resource}", metadata["uid"])
}

const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const KINDS: &str = "configmaps,secrets,services,serviceaccounts,namespaces,\
    customresourcedefinitions,mutatingwebhookconfigurations,validatingwebhookconfigurations,\
    clusterroles,clusterrolebindings,roles,rolebindings,peerauthentications";
