//! Pods and workloads of a cluster.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, ListParams, NotUsed, Object};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::error::ClusterError;
use super::pages::in_pages;

/// Pods or workloads to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// The namespace; `None` for all.
    pub namespace: Option<&'a str>,
    /// Label selector of the API server; empty for all.
    pub labels: &'a str,
}

/// Passes the metadata and spec of every pod to `take`, except pods that have ended or are being
/// deleted.
///
/// Needs list on pods, in the namespace or else in the whole cluster. `page` is the number of pods
/// in memory at a time.
pub async fn each(
    client: Client,
    selection: Selection<'_>,
    page: u32,
    take: impl FnMut(Value),
) -> Result<(), ClusterError> {
    let parameters = ListParams::default().fields(NOT_ENDED).limit(page);
    each_object(client, &ApiResource::erase::<Pod>(&()), selection, parameters, take).await
}

/// Passes the metadata and spec of every object of a workload's kind to `take`, except those that
/// are being deleted. Otherwise as [`each`].
pub async fn each_workload(
    client: Client,
    resource: &ApiResource,
    selection: Selection<'_>,
    page: u32,
    take: impl FnMut(Value),
) -> Result<(), ClusterError> {
    let parameters = ListParams::default().limit(page);
    each_object(client, resource, selection, parameters, take).await
}

async fn each_object(
    client: Client,
    resource: &ApiResource,
    selection: Selection<'_>,
    parameters: ListParams,
    mut take: impl FnMut(Value),
) -> Result<(), ClusterError> {
    let parameters = match selection.labels {
        "" => parameters,
        labels => parameters.labels(labels),
    };
    let api: Api<Object<Value, NotUsed>> = match selection.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
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

impl<'a> From<Option<&'a str>> for Selection<'a> {
    fn from(namespace: Option<&'a str>) -> Self {
        Self { namespace, labels: "" }
    }
}

const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";
