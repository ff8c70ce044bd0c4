//! Objects of Istio's kinds in a cluster.

use injector::cluster::error::ClusterError;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use mesh::istio_kinds::IstioKind;
use serde_json::Value;

/// Lists the objects of a kind in a namespace, or in all, by the first version that the cluster
/// serves. There are none if it does not know the kind.
pub(crate) async fn list(
    client: &Client,
    kind: &IstioKind,
    namespace: Option<&str>,
) -> Result<Vec<Value>, ClusterError> {
    for version in kind.versions {
        let resource = GroupVersionKind::gvk(kind.group, version, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&resource, kind.plural);
        let api: Api<DynamicObject> = match namespace {
            None => Api::all_with(client.clone(), &resource),
            Some(name) => Api::namespaced_with(client.clone(), name, &resource),
        };
        match all(&api, &resource).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            listed => return listed.map_err(ClusterError::from),
        }
    }
    Ok(Vec::new())
}

async fn all(api: &Api<DynamicObject>, resource: &ApiResource) -> kube::Result<Vec<Value>> {
    let (mut objects, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let list = api.list(&params).await?;
        for object in list.items {
            let mut object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
            object["apiVersion"] = resource.api_version.clone().into();
            object["kind"] = resource.kind.clone().into();
            objects.push(object);
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// Objects of an answer.
const PAGE: u32 = 500;
