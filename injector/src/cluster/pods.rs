//! Pods and Deployments of a cluster.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, ListParams, NotUsed, Object};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use super::error::ClusterError;
use super::pages::in_pages;

/// Passes the metadata and spec of every pod to `take`, except pods that have ended or are being
/// deleted.
///
/// Needs list on pods, in one namespace or else in the whole cluster. `page` is the number of pods
/// in memory at a time.
pub async fn each(
    client: Client,
    namespace: Option<&str>,
    page: u32,
    take: impl FnMut(Value),
) -> Result<(), ClusterError> {
    let parameters = ListParams::default().fields(NOT_ENDED).limit(page);
    each_object::<Pod>(client, namespace, parameters, take).await
}

/// Passes the metadata and spec of every Deployment to `take`, except those that are being deleted.
/// Otherwise as [`each`].
pub async fn each_deployment(
    client: Client,
    namespace: Option<&str>,
    page: u32,
    take: impl FnMut(Value),
) -> Result<(), ClusterError> {
    let parameters = ListParams::default().limit(page);
    each_object::<Deployment>(client, namespace, parameters, take).await
}

async fn each_object<K: Resource<DynamicType = ()>>(
    client: Client,
    namespace: Option<&str>,
    parameters: ListParams,
    mut take: impl FnMut(Value),
) -> Result<(), ClusterError> {
    let resource = ApiResource::erase::<K>(&());
    let api: Api<Object<Value, NotUsed>> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    in_pages(
        parameters,
        async |page: &_| api.list(page).await,
        |object| {
            let Object { mut metadata, spec, .. } = object;
            if metadata.deletion_timestamp.is_none() {
                metadata.managed_fields = None;
                take(json!({"metadata": metadata, "spec": spec}));
            }
        },
    )
    .await
}

const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";
