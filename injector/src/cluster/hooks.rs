//! Webhook configurations of a cluster.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::error::ClusterError;
use super::pages::in_pages;
use crate::kubernetes::webhook_configuration::{HookConfiguration, HookError};

/// Configurations that call injectors, and errors of invalid ones.
type Configurations = (Vec<HookConfiguration>, Vec<HookError>);

/// Returns every webhook configuration that calls injectors, sorted by name, and the errors of the
/// invalid ones. Needs list on mutating webhook configurations.
pub async fn all(client: Client) -> Result<Configurations, ClusterError> {
    let objects = objects(client).await?;
    Ok(sorted(objects.iter().map(HookConfiguration::read).collect()))
}

/// Returns every mutating webhook configuration as stored, sorted by name. Needs list on them.
pub async fn objects(client: Client) -> Result<Vec<Value>, ClusterError> {
    let api = api(client);
    let mut objects = Vec::new();
    let take = |object: DynamicObject| objects.push(json!(object));
    in_pages(ListParams::default().limit(PAGE), async |page: &_| api.list(page).await, take)
        .await?;
    objects.sort_by(|one, other| name(one).cmp(name(other)));
    Ok(objects)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns the webhook configurations of these names that exist, in the form of [`all`]. Needs get
/// on them.
pub async fn named(client: Client, names: &[String]) -> Result<Configurations, ClusterError> {
    let api = api(client);
    let mut objects = Vec::new();
    for name in names {
        let object = api.get_opt(name).await?;
        objects.extend(object.map(|object| HookConfiguration::read(&json!(object))));
    }
    Ok(sorted(objects))
}

fn sorted(objects: Vec<Result<Option<HookConfiguration>, HookError>>) -> Configurations {
    let (mut configurations, mut wrong) = (Vec::new(), Vec::new());
    for object in objects {
        match object {
            Ok(configuration) => configurations.extend(configuration),
            Err(error) => wrong.push(error),
        }
    }
    configurations.sort_by(|one, other| one.name.cmp(&other.name));
    (configurations, wrong)
}

/// Returns the API of the objects as stored: no field is lost to a type that does not know it.
pub fn api(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<MutatingWebhookConfiguration>(&()))
}

const PAGE: u32 = 100;
