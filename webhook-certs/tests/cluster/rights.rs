//! Minimal rights, and missing rights.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::wait;
use kube::api::PostParams;
use serde_json::{Value, json};
use webhook_certs::status::Status;

use crate::fixture::Fixture;

pub(crate) async fn without_the_right_to_publish_a_leaf_is_served(
    fixture: Fixture<'_>,
) -> Result<()> {
    fixture.forbid_configurations().await?;
    let mut replica = fixture.replica().await?;
    let status = replica
        .until("it serves and reports an error", |status| {
            status.leaf_not_after.is_some() && status.last_error.is_some()
        })
        .await?;
    let error = status.last_error.unwrap_or_default();
    let start = format!("cannot get mutatingwebhookconfigurations/{}: ", fixture.options.namespace);
    ensure!(error.starts_with(&start) && error.contains("hint: "), "{error}");
    ensure!(replica.certificate.is_loaded());
    Ok(())
}

pub(crate) async fn every_right_is_needed_and_none_is_missing(fixture: Fixture<'_>) -> Result<()> {
    fixture.configure(443).await?;
    let mut replica = fixture.replica().await?;
    let name = &fixture.options.secret_name;
    fixture.published().await?;
    let mut secret = fixture.secrets().get(name).await?;
    secret.data = None;
    fixture.secrets().replace(name, &PostParams::default(), &secret).await?;
    let restored = |status: &Status| status.generation == Some(2) && status.trusted;
    replica.until("the Secret is restored", restored).await?;

    let (configurations, secrets) = ("mutatingwebhookconfigurations", "secrets");
    let granted: BTreeSet<_> = ["get", "list", "watch", "patch"]
        .map(|verb| (verb.to_owned(), configurations.to_owned()))
        .into_iter()
        .chain(
            ["get", "list", "watch", "update", "create"]
                .map(|verb| (verb.to_owned(), secrets.to_owned())),
        )
        .chain([("create".to_owned(), "events".to_owned())])
        .collect();
    let account = format!("system:serviceaccount:{0}:{0}", fixture.options.namespace);
    wait::until_async("every right was used", async || {
        let mut used = BTreeSet::new();
        for event in fixture.server.audit()? {
            if event["user"]["username"] == json!(account) {
                ensure!(event["responseStatus"]["code"] != json!(403), "{event}");
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                used.insert((text(&event["verb"]), text(&event["objectRef"]["resource"])));
            }
        }
        ensure!(used == granted, "used {used:?}");
        Ok(())
    })
    .await
}
