//! Fast deletion of namespaces that an earlier test has left.

use anyhow::{Context, Result, ensure};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::discovery::{ApiResource, Discovery, Scope, verbs};
use kube::{Client, Error};
use serde_json::json;

use crate::wait;

/// The namespaced kinds of the API server.
pub struct Leftovers {
    client: Client,
    kinds: Vec<ApiResource>,
}

impl Leftovers {
    /// Reads the kinds from the API server; kinds defined later are not included.
    pub async fn new(client: Client) -> Result<Self> {
        let discovery = Discovery::new(client.clone()).run().await.context("asking for kinds")?;
        let mut kinds = Vec::new();
        for group in discovery.groups() {
            for (resource, capabilities) in group.recommended_resources() {
                let is_deleted = capabilities.supports_operation(verbs::DELETE_COLLECTION);
                if capabilities.scope == Scope::Namespaced && is_deleted {
                    kinds.push(resource);
                }
            }
        }
        Ok(Self { client, kinds })
    }

    /// Deletes a namespace with everything in it.
    ///
    /// The namespace controller does the same, but first waits five seconds for API servers that do
    /// not know of the deletion yet; here there is only one.
    pub async fn delete_namespace(&self, name: &str) -> Result<()> {
        let (how, all) = (DeleteParams::default(), ListParams::default());
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(self.client.clone());
        gone(namespaces.delete(name, &how).await)?;
        for kind in &self.kinds {
            let objects = Api::<DynamicObject>::namespaced_with(self.client.clone(), name, kind);
            gone(objects.delete_collection(&how, &all).await)
                .with_context(|| format!("deleting {} of {name}", kind.plural))?;
        }
        let finalized = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name}, "spec": {"finalizers": []},
        });
        gone(
            namespaces
                .replace_subresource("finalize", name, &PostParams::default(), &finalized)
                .await,
        )?;
        wait::until_async(&format!("{name} is gone"), async || {
            ensure!(namespaces.get_opt(name).await?.is_none(), "it is there");
            Ok(())
        })
        .await
    }
}

/// Ignores the error that another client was faster.
fn gone<T>(answer: Result<T, Error>) -> Result<()> {
    match answer {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}
