//! Webhook configurations of a cluster.

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::json;

use super::error::ClusterError;
use super::pages::in_pages;
use crate::kubernetes::webhook_configuration::{HookConfiguration, HookError};

/// Returns every webhook configuration that calls injectors, sorted by name, and the errors of the
/// invalid ones. Needs list on mutating webhook configurations.
pub async fn all(client: Client) -> Result<(Vec<HookConfiguration>, Vec<HookError>), ClusterError> {
    let (mut configurations, mut wrong) = (Vec::new(), Vec::new());
    let parameters = ListParams::default().limit(PAGE);
    in_pages(&api(client), parameters, |object| match HookConfiguration::read(&json!(object)) {
        Ok(configuration) => configurations.extend(configuration),
        Err(error) => wrong.push(error),
    })
    .await?;
    configurations.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((configurations, wrong))
}

/// Returns the webhook configurations of these names that exist, in the form of [`all`]. Needs get
/// on them.
pub async fn named(
    client: Client,
    names: &[String],
) -> Result<(Vec<HookConfiguration>, Vec<HookError>), ClusterError> {
    let (mut configurations, mut wrong) = (Vec::new(), Vec::new());
    let api = api(client);
    for name in names {
        let Some(object) = api.get_opt(name).await? else { continue };
        match HookConfiguration::read(&json!(object)) {
            Ok(configuration) => configurations.extend(configuration),
            Err(error) => wrong.push(error),
        }
    }
    configurations.sort_by(|one, other| one.name.cmp(&other.name));
    Ok((configurations, wrong))
}

/// Returns the API of the objects as stored: no field is lost to a type that does not know it.
fn api(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<MutatingWebhookConfiguration>(&()))
}

const PAGE: u32 = 100;
