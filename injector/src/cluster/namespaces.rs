//! Namespaces of a cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::error::ClusterError;
use super::pages::in_pages;

/// Returns the labels of every namespace. Needs list on namespaces.
pub async fn labels(client: Client) -> Result<BTreeMap<String, Value>, ClusterError> {
    let mut namespaces = BTreeMap::new();
    each(client, |namespace| {
        namespaces.insert(namespace.name_any(), json!(namespace.labels()));
    })
    .await?;
    Ok(namespaces)
}

/// Passes the metadata of every namespace to `take`. Needs list on namespaces.
pub async fn each(
    client: Client,
    take: impl FnMut(PartialObjectMeta<Namespace>),
) -> Result<(), ClusterError> {
    let api: Api<Namespace> = Api::all(client);
    let parameters = ListParams::default().limit(PAGE);
    in_pages(parameters, async |page: &_| api.list_metadata(page).await, take).await
}

/// Returns the labels of one namespace. Needs get on it.
pub async fn labels_of(client: Client, name: &str) -> Result<Value, ClusterError> {
    let api: Api<Namespace> = Api::all(client);
    Ok(json!(api.get_metadata(name).await?.labels()))
}

/// Returns the annotations of one namespace. Needs get on it.
pub async fn annotations_of(
    client: Client,
    name: &str,
) -> Result<BTreeMap<String, String>, ClusterError> {
    let api: Api<Namespace> = Api::all(client);
    Ok(api.get_metadata(name).await?.annotations().clone())
}

const PAGE: u32 = 500;
