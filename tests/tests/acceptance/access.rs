//! Permissions of the manifests' account at the API servers.

use anyhow::{Result, ensure};
use e2e::wait;
use k8s_openapi::api::authorization::v1::LocalSubjectAccessReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::fixture::{ACCOUNT, NAME, NAMESPACE, SECRET};
use crate::shared::Shared;

/// Waits until every API server allows a verb, or none does. Each learns of roles at its own pace.
pub(crate) async fn until_allowed(
    shared: &Shared,
    (resource, verb): (&str, &str),
    wanted: bool,
) -> Result<()> {
    let (group, name) = match resource {
        "secrets" => ("", SECRET),
        "configmaps" => ("", "istio"),
        "nodes" => ("", ""),
        "proxyconfigs" => ("networking.istio.io", ""),
        _ => ("admissionregistration.k8s.io", NAME),
    };
    let review = serde_json::from_value(json!({
        "metadata": {"namespace": NAMESPACE},
        "spec": {"user": ACCOUNT, "resourceAttributes": {
            "namespace": NAMESPACE, "verb": verb, "resource": resource, "group": group, "name": name,
        }},
    }))?;
    for (index, client) in shared.admins.iter().enumerate() {
        let reviews = Api::<LocalSubjectAccessReview>::namespaced(client.clone(), NAMESPACE);
        wait::until_async("rights are as written", async || {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            ensure!(allowed == wanted, "API server {index}: {verb} {resource} is {allowed}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
