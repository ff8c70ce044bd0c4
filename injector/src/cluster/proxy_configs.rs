//! `ProxyConfig` resources of a cluster.

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::error::ClusterError;
use super::pages::in_pages;
use crate::settings::proxy_configs::{Origin, ProxyConfigResource, ProxyConfigs};

/// Returns the API of the resources in all namespaces.
pub fn api(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &resource())
}

fn resource() -> ApiResource {
    ApiResource {
        group: "networking.istio.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "networking.istio.io/v1beta1".to_owned(),
        kind: "ProxyConfig".to_owned(),
        plural: "proxyconfigs".to_owned(),
    }
}

/// True if the resource applies to a revision. One without the label `istio.io/rev` applies to all.
pub fn is_for(revision: &str, object: &DynamicObject) -> bool {
    object.labels().get("istio.io/rev").is_none_or(|label| label == revision)
}

/// Parses a resource. The error is a message for users.
pub fn read(object: &DynamicObject) -> Result<ProxyConfigResource, String> {
    let created = object.creation_timestamp().map_or(Timestamp::MIN, |time| time.0);
    let namespace = object.namespace().unwrap_or_default();
    let origin = Origin { namespace, name: object.name_any(), created };
    ProxyConfigResource::parse(origin, object.data.get("spec").unwrap_or(&Value::Null))
}

/// Returns the valid resources of a revision; none if the resource is not installed. Needs list on
/// proxyconfigs.
pub async fn usable(client: Client, revision: &str) -> Result<ProxyConfigs, ClusterError> {
    match readable(api(client), revision).await {
        Ok((usable, _)) => Ok(usable.into_iter().collect()),
        Err(error) if error.is_absent() => Ok(ProxyConfigs::default()),
        Err(error) => Err(error),
    }
}

/// Returns the valid resources of a revision in one namespace, and name and error of each invalid
/// one. Needs list on proxyconfigs there.
pub async fn of_namespace(
    client: Client,
    namespace: &str,
    revision: &str,
) -> Result<(Vec<ProxyConfigResource>, Vec<(String, String)>), ClusterError> {
    readable(Api::namespaced_with(client, namespace, &resource()), revision).await
}

/// Returns the valid resources of a revision, and name and error of each invalid one.
async fn readable(
    api: Api<DynamicObject>,
    revision: &str,
) -> Result<(Vec<ProxyConfigResource>, Vec<(String, String)>), ClusterError> {
    let (mut usable, mut refused) = (Vec::new(), Vec::new());
    let take = |object: DynamicObject| {
        if is_for(revision, &object) {
            match read(&object) {
                Ok(resource) => usable.push(resource),
                Err(problem) => refused.push((object.name_any(), problem)),
            }
        }
    };
    in_pages(ListParams::default().limit(PAGE), async |page: &_| api.list(page).await, take)
        .await?;
    Ok((usable, refused))
}

const PAGE: u32 = 200;
