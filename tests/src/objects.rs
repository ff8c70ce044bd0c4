//! Objects of an API server, by requests of this process: a kubectl takes a tenth of a second of
//! CPU for each.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::discovery::{
    ApiCapabilities, ApiGroup, ApiResource, Discovery, Scope, pinned_kind, verbs,
};
use kube::{Client, Error};
use serde_json::{Value, json};

use crate::wait;

/// Objects of all kinds, with the permissions of a client.
pub struct Objects {
    client: Client,
    kinds: Discovery,
}

impl Objects {
    /// Reads the kinds from the API server; others are looked up when they are applied.
    pub async fn discover(client: Client) -> Result<Self> {
        let discovery = Discovery::new(client.clone()).run_aggregated();
        let kinds = discovery.await.context("reading the kinds of the API server")?;
        Ok(Self { client, kinds })
    }

    /// Applies documents in their order as `kubectl apply --server-side --force-conflicts` does.
    pub async fn apply(&self, documents: &[Value]) -> Result<()> {
        self.apply_as("kubectl", documents).await
    }

    /// Applies documents as [`Objects::apply`], as another field manager.
    pub async fn apply_as(&self, manager: &str, documents: &[Value]) -> Result<()> {
        let how = PatchParams::apply(manager).force();
        for document in documents {
            let applying = async {
                let api = self.api_of(document).await?;
                api.patch(name(document)?, &how, &Patch::Apply(document)).await?;
                anyhow::Ok(())
            };
            applying.await.with_context(|| format!("applying {document}"))?;
        }
        Ok(())
    }

    /// Returns the object of each document.
    pub async fn live(&self, documents: &[Value]) -> Result<Vec<Value>> {
        let mut live = Vec::new();
        for document in documents {
            let object = self.api_of(document).await?.get(name(document)?).await;
            let object = object.with_context(|| format!("reading {document}"))?;
            live.push(serde_json::to_value(object)?);
        }
        Ok(live)
    }

    /// Creates an object, and returns it.
    pub async fn create(&self, object: &Value) -> Result<Value> {
        let api = self.api_of(object).await?;
        let how = PostParams::default();
        let created = api.create(&how, &serde_json::from_value(object.clone())?).await;
        let created = created.with_context(|| format!("creating {object}"))?;
        Ok(serde_json::to_value(created)?)
    }

    /// Returns an object. `kind` is the kind in lower case or its plural; an empty namespace means
    /// an object of the cluster.
    pub async fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Value> {
        let object = self.api(kind, namespace)?.get(name).await;
        let object = object.with_context(|| format!("{kind} {namespace}/{name}"))?;
        Ok(serde_json::to_value(object)?)
    }

    /// Returns the objects of a kind, in one namespace or in all.
    pub async fn list(&self, kind: &str, namespace: &str) -> Result<Vec<Value>> {
        let found = self.api(kind, namespace)?.list(&ListParams::default()).await;
        let found = found.with_context(|| format!("listing {kind}"))?;
        found.items.into_iter().map(|object| Ok(serde_json::to_value(object)?)).collect()
    }

    /// Returns the names of the cluster's objects of a kind.
    pub async fn names(&self, kind: &str) -> Result<Vec<String>> {
        let (resource, _) = self.kind(kind)?;
        names(&self.client, &resource)
            .await
            .map(|found| found.into_iter().map(|(_, name)| name).collect())
    }

    /// Returns all objects as `KIND NAMESPACE/NAME`, except those of `ignored` plurals. Also kinds
    /// that were defined since the value was made count.
    pub async fn all(&self, ignored: &[&str]) -> Result<Vec<String>> {
        let discovery = Discovery::new(self.client.clone()).run_aggregated();
        let kinds = discovery.await.context("reading the kinds of the API server")?;
        let mut all = Vec::new();
        for (resource, capabilities) in recommended(&kinds) {
            let is_ignored = ignored.contains(&&*format!("{}.{}", resource.plural, resource.group))
                || ignored.contains(&&*resource.plural) && resource.group.is_empty();
            if capabilities.supports_operation(verbs::LIST) && !is_ignored {
                let found = names(&self.client, &resource).await?.into_iter();
                let kind = &resource.kind;
                all.extend(found.map(|(namespace, name)| format!("{kind} {namespace}/{name}")));
            }
        }
        Ok(all)
    }

    /// Returns a token of an account, valid for an hour.
    pub async fn token(&self, namespace: &str, account: &str) -> Result<String> {
        let request: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 3600}}))?;
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), namespace);
        let created =
            accounts.create_token_request(account, &PostParams::default(), &request).await;
        let status = created.with_context(|| format!("a token of {namespace}/{account}"))?.status;
        Ok(status.context("a token request without a status")?.token)
    }

    /// Deletes an object of the cluster, if it is there, without waiting.
    pub async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        let deleted = self.api(kind, "")?.delete(name, &DeleteParams::background()).await;
        gone(deleted).with_context(|| format!("deleting {kind} {name}"))
    }

    /// Deletes the objects of a kind in a namespace, without waiting.
    pub async fn delete_all(&self, kind: &str, namespace: &str) -> Result<()> {
        self.delete_all_of(&self.kind(kind)?.0, namespace).await
    }

    /// Deletes namespaces with everything in them.
    ///
    /// The namespace controller does the same, but first waits five seconds for API servers that do
    /// not know of the deletion yet; here there is only one. A namespace without finalizers is
    /// nothing for the controller. Otherwise it would empty the next namespace of the same name, if
    /// it found this one at the end of its wait.
    pub async fn delete_namespaces(&self, doomed: &[String]) -> Result<()> {
        if doomed.is_empty() {
            return Ok(());
        }
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let delete = async |name| gone(namespaces.delete(name, &DeleteParams::default()).await);
        for name in doomed {
            let finalized = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name}, "spec": {"finalizers": []},
            });
            let how = PostParams::default();
            gone(namespaces.replace_subresource("finalize", name, &how, &finalized).await)?;
            // The first request ends the creation of objects, the second one deletes.
            delete(name).await?;
        }
        for (kind, capabilities) in recommended(&self.kinds) {
            let is_deleted = capabilities.supports_operation(verbs::DELETE_COLLECTION);
            if capabilities.scope == Scope::Namespaced && is_deleted {
                let found = names(&self.client, &kind).await?;
                let filled: BTreeSet<_> =
                    found.into_iter().map(|(namespace, _)| namespace).collect();
                for name in doomed.iter().filter(|name| filled.contains(*name)) {
                    self.delete_all_of(&kind, name).await?;
                }
            }
        }
        for name in doomed {
            delete(name).await?;
        }
        for name in doomed {
            wait::until_async("the namespace is gone", async || {
                let found = namespaces.get_opt(name).await?;
                ensure!(found.is_none(), "{name} stays");
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn delete_all_of(&self, kind: &ApiResource, namespace: &str) -> Result<()> {
        let objects = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, kind);
        let (how, all) = (DeleteParams::background(), ListParams::default());
        gone(objects.delete_collection(&how, &all).await)
            .with_context(|| format!("deleting {} of {namespace}", kind.plural))
    }

    /// Requests of a document's kind and namespace.
    async fn api_of(&self, document: &Value) -> Result<Api<DynamicObject>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&document["apiVersion"]), text(&document["kind"]));
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let kind = GroupVersionKind::gvk(group, version, &kind);
        let (resource, capabilities) = match self.kinds.resolve_gvk(&kind) {
            Some(found) => found,
            None => pinned_kind(&self.client, &kind).await?,
        };
        let namespace = text(&document["metadata"]["namespace"]);
        Ok(match capabilities.scope {
            Scope::Cluster => Api::all_with(self.client.clone(), &resource),
            Scope::Namespaced if namespace.is_empty() => {
                Api::default_namespaced_with(self.client.clone(), &resource)
            }
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), &namespace, &resource),
        })
    }

    fn api(&self, kind: &str, namespace: &str) -> Result<Api<DynamicObject>> {
        let (resource, capabilities) = self.kind(kind)?;
        Ok(match capabilities.scope {
            Scope::Namespaced if !namespace.is_empty() => {
                Api::namespaced_with(self.client.clone(), namespace, &resource)
            }
            _ => Api::all_with(self.client.clone(), &resource),
        })
    }

    fn kind(&self, name: &str) -> Result<(ApiResource, ApiCapabilities)> {
        let is_named =
            |kind: &ApiResource| kind.plural == name || kind.kind.eq_ignore_ascii_case(name);
        match recommended(&self.kinds).find(|(kind, _)| is_named(kind)) {
            Some(found) => Ok(found),
            None => bail!("the API server has no kind {name}"),
        }
    }
}

fn name(document: &Value) -> Result<&str> {
    document["metadata"]["name"].as_str().context("an object has a name")
}

/// Returns the kinds in the version that the API server prefers, those of the core first.
fn recommended(kinds: &Discovery) -> impl Iterator<Item = (ApiResource, ApiCapabilities)> {
    kinds.groups_alphabetical().into_iter().flat_map(ApiGroup::recommended_resources)
}

/// Returns namespace and name of each object of a kind.
async fn names(client: &Client, kind: &ApiResource) -> Result<Vec<(String, String)>> {
    let all = Api::<DynamicObject>::all_with(client.clone(), kind);
    let found = all.list_metadata(&ListParams::default()).await;
    let found = found.with_context(|| format!("listing {}", kind.plural))?;
    let name = |object: PartialObjectMeta<DynamicObject>| {
        let metadata = object.metadata;
        (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default())
    };
    Ok(found.items.into_iter().map(name).collect())
}

/// Ignores the error that another client was faster.
fn gone<T>(answer: Result<T, Error>) -> Result<()> {
    match answer {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}
