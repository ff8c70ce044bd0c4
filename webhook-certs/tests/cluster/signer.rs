//! Leaves by `CertificateSigningRequest`s, with the test as signer.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::wait;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestStatus,
};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use rcgen::{CertificateSigningRequestParams, Issuer, KeyPair};
use serde_json::json;
use tempfile::NamedTempFile;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::bundle::Bundle;
use webhook_certs::options::{ForeignCa, Signer};
use webhook_certs::status::Status;

use crate::fixture::{Fixture, OURS, Replica};
use crate::reviewer::Reviewer;

pub(crate) async fn cluster_signer_signs_and_renews(mut fixture: Fixture<'_>) -> Result<()> {
    let lifetime = Lifetime::starting(Timestamp::now(), jiff::SignedDuration::from_hours(24));
    let ca = Authority::create("signer", 1, lifetime, Entropy::draw()?)?;
    let mut file = NamedTempFile::new()?;
    file.write_all(b"not yet")?;
    let signer = Signer {
        name: "example.com/serving".to_owned(),
        approve: false,
        authorities: Some(file.path().to_owned()),
    };
    fixture.allow_requests(&signer.name).await?;
    fixture.options.signer = Some(signer);
    fixture.options.parameters.tick = Duration::from_millis(500);
    // Each request is one write.
    fixture.options.parameters.write_burst = 50;
    fixture.expose().await?;

    // A signed certificate could not be verified.
    let mut replica = fixture.replica().await?;
    let unread = |status: &Status| {
        status.last_error.as_ref().is_some_and(|error| error.starts_with("--signer-ca-file"))
    };
    replica.until("it reports the missing CA", unread).await?;
    ensure!(requests(&fixture).await?.is_empty(), "a certificate was requested");

    // The first request is denied, and another one follows.
    trust(&file, &ca)?;
    let first = pending(&fixture, None).await?;
    decide(&fixture, &first, "Denied").await?;
    let denied = |status: &Status| {
        status.last_error.as_ref().is_some_and(|error| error.contains("was denied: ByTheTest"))
    };
    replica.until("it reports the denial", denied).await?;
    fixture
        .wait_for_event(&["CertificateRequestFailed: certificatesigningrequests/", "was denied"])
        .await?;
    ensure!(!replica.certificate.is_loaded(), "something is served");

    let second = pending(&fixture, Some(&first)).await?;
    let spec = &second.spec;
    let usages = ["digital signature", "server auth"].map(str::to_owned);
    ensure!(spec.usages.as_deref() == Some(usages.as_slice()), "{:?}", spec.usages);
    ensure!(spec.expiration_seconds == Some(7 * 24 * 3600), "{:?}", spec.expiration_seconds);
    decide(&fixture, &second, "Approved").await?;
    // A certificate of another CA is not served, even if the file is unreadable.
    std::fs::write(file.path(), "no longer")?;
    replica.until("it reports the broken file", unread).await?;
    let other = Authority::create("signer", 1, lifetime, Entropy::draw()?)?;
    sign(&fixture, &second, &other, HOUR).await?;
    let refused = |status: &Status| {
        status.last_error.as_ref().is_some_and(|error| error.contains("API servers would reject"))
    };
    replica.until("it does not serve it", refused).await?;
    ensure!(!replica.certificate.is_loaded(), "it is served");
    trust(&file, &ca)?;

    let third = pending(&fixture, Some(&second)).await?;
    decide(&fixture, &third, "Approved").await?;
    sign(&fixture, &third, &ca, HOUR).await?;
    let served = |status: &Status| status.leaf_not_after.is_some() && status.last_error.is_none();
    replica.until("it serves", served).await?;
    let reviewer = Reviewer::start(Arc::clone(&replica.certificate)).await?;
    fixture.configure(reviewer.port).await?;
    let trusted = |status: &Status| status.trusted && status.entries == OURS.len();
    replica.until("it is trusted", trusted).await?;
    wait::until_async("the API server calls it", async || fixture.create_reviewed("first").await)
        .await?;
    let requested = requests(&fixture).await?.len();
    ensure!(requested == 3, "{requested} certificates were requested");
    ensure!(fixture.secrets().get_opt(&fixture.options.secret_name).await?.is_none(), "a Secret");

    // A replica that may approve, with a leaf whose renewal is due in seconds.
    drop(replica);
    fixture.options.signer.as_mut().context("no signer")?.approve = true;
    fixture.options.parameters.foreign_ca = ForeignCa::Drop;
    let mut replica = fixture.replica().await?;
    let mut leaves: Vec<Vec<u8>> = Vec::new();
    while leaves.len() < 3 {
        let request = pending(&fixture, None).await?;
        ensure!(is(&request, "Approved"), "it was not approved");
        let lifetime = if leaves.len() == 2 { HOUR } else { SHORT };
        sign(&fixture, &request, &ca, lifetime).await?;
        let leaf = wait::until_async("another leaf is served", async || {
            let leaf = replica.leaf()?;
            ensure!(!leaves.contains(&leaf), "it is the one before");
            Ok(leaf)
        })
        .await?;
        let now = Timestamp::now();
        ensure!(replica.certificate.is_valid_at(now), "it came too late");
        leaves.push(leaf);
    }
    let denied = replica.until("it goes on", |status| status.last_error.is_none()).await?.denied;
    ensure!(denied.is_empty(), "{denied:?}");
    ensure!(fixture.denied_requests()? == 0, "{} calls were denied", fixture.denied_requests()?);
    repaired(&fixture, &mut replica, &Bundle::new(ca.ca().clone(), None)).await?;

    // The file changes to another CA: a leaf of it is requested at once. Until it is served, API
    // servers trust the previous CA, although no foreign CA is kept.
    let next = Authority::create("signer", 2, lifetime, Entropy::draw()?)?;
    let old = replica.leaf()?;
    trust(&file, &next)?;
    let early = pending(&fixture, None).await?;
    let both = Bundle::new(next.ca().clone(), Some(ca.ca().clone()));
    published(&fixture, &both).await?;
    sign(&fixture, &early, &ca, HOUR).await?;
    replica.until("it does not serve what the old CA signs", refused).await?;
    let late = pending(&fixture, Some(&early)).await?;
    ensure!(replica.leaf()? == old, "another leaf is served");
    published(&fixture, &both).await?;
    sign(&fixture, &late, &next, HOUR).await?;
    published(&fixture, &Bundle::new(next.ca().clone(), None)).await?;
    ensure!(replica.leaf()? != old, "nothing trusts the leaf that is served");
    replica.until("it is trusted", trusted).await?;
    Ok(())
}

pub(crate) async fn failed_approval_is_repeated(mut fixture: Fixture<'_>) -> Result<()> {
    let signer =
        Signer { name: "example.com/serving".to_owned(), approve: true, authorities: None };
    fixture.allow_requests(&signer.name).await?;
    fixture.forbid_approvals(true).await?;
    fixture.options.signer = Some(signer);
    fixture.options.parameters.tick = Duration::from_millis(500);
    fixture.options.parameters.denied_interval = jiff::SignedDuration::from_millis(500);
    let mut replica = fixture.replica().await?;
    let denied = |status: &Status| {
        let error = status.last_error.as_deref().unwrap_or_default();
        error.contains("cannot update certificatesigningrequests/approval")
            && error.contains("manifests/components/csr-approval")
    };
    replica.until("it reports the forbidden approval", denied).await?;
    fixture.forbid_approvals(false).await?;
    let approved = pending(&fixture, None).await?;
    ensure!(requests(&fixture).await?.len() == 1, "another one was requested");
    let lifetime = Lifetime::starting(Timestamp::now(), jiff::SignedDuration::from_hours(24));
    let ca = Authority::create("signer", 1, lifetime, Entropy::draw()?)?;
    sign(&fixture, &approved, &ca, HOUR).await?;
    replica.until("it serves", |status| status.leaf_not_after.is_some()).await?;
    Ok(())
}

fn trust(file: &NamedTempFile, ca: &Authority) -> Result<()> {
    Ok(std::fs::write(file.path(), ca.certificate_pem().as_bytes())?)
}

/// Waits until an entry's bundle holds these CAs and no others.
async fn published(fixture: &Fixture<'_>, wanted: &Bundle) -> Result<()> {
    wait::until_async("the bundle is right", async || {
        let bundle = fixture.bundles().await?[OURS[0]].clone().unwrap_or_default();
        let bundle = Bundle::observed(&bundle);
        ensure!(bundle.is_same_set(wanted), "{bundle:?}");
        Ok(())
    })
    .await
}

/// Empties a bundle and waits until it is restored.
async fn repaired(fixture: &Fixture<'_>, replica: &mut Replica, wanted: &Bundle) -> Result<()> {
    let wipe = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]);
    let wipe = Patch::<()>::Json(serde_json::from_value(wipe)?);
    let name = &fixture.options.webhook_configurations[0];
    fixture.configurations().patch(name, &PatchParams::default(), &wipe).await?;
    published(fixture, wanted).await?;
    replica.until("it has seen it", |status| status.overwrites.contains_key("unknown")).await?;
    Ok(())
}

fn api(fixture: &Fixture<'_>) -> Api<CertificateSigningRequest> {
    Api::all(fixture.admin.clone())
}

async fn requests(fixture: &Fixture<'_>) -> Result<Vec<CertificateSigningRequest>> {
    let prefix = format!("{}-{}-", fixture.options.install, fixture.options.namespace);
    let mut found = api(fixture).list(&ListParams::default()).await?.items;
    found.retain(|request| name(request).starts_with(&prefix));
    Ok(found)
}

/// Waits for a pending request other than `before`.
async fn pending(
    fixture: &Fixture<'_>,
    before: Option<&CertificateSigningRequest>,
) -> Result<CertificateSigningRequest> {
    let is_new = |request: &CertificateSigningRequest| {
        before.is_none_or(|before| name(before) != name(request))
            && !is(request, "Denied")
            && request.status.as_ref().is_none_or(|status| status.certificate.is_none())
            && (!fixture.options.signer.as_ref().is_some_and(|signer| signer.approve)
                || is(request, "Approved"))
    };
    wait::until_async("a certificate is requested", async || {
        requests(fixture).await?.into_iter().find(|request| is_new(request)).context("not yet")
    })
    .await
}

async fn decide(
    fixture: &Fixture<'_>,
    request: &CertificateSigningRequest,
    condition: &str,
) -> Result<()> {
    let condition = json!({"type": condition, "status": "True", "reason": "ByTheTest"});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    api(fixture).patch_approval(name(request), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Signs a request as any signer does.
async fn sign(
    fixture: &Fixture<'_>,
    request: &CertificateSigningRequest,
    ca: &Authority,
    lifetime: jiff::SignedDuration,
) -> Result<()> {
    let pem = std::str::from_utf8(&request.spec.request.0)?;
    let mut asked = CertificateSigningRequestParams::from_pem(pem)?;
    let now = Timestamp::now();
    let instant = |at: Timestamp| time::OffsetDateTime::from_unix_timestamp(at.as_second());
    asked.params.not_before = instant(now)?;
    asked.params.not_after = instant(now + lifetime)?;
    let key = KeyPair::from_pem(&ca.key_pem())?;
    let issuer = Issuer::from_ca_cert_der(ca.ca().der(), key)?;
    let chain = asked.signed_by(&issuer)?.pem();
    let mut signed = api(fixture).get(name(request)).await?;
    let status = signed.status.get_or_insert_with(CertificateSigningRequestStatus::default);
    if status.conditions.is_none() {
        bail!("it is not approved");
    }
    status.certificate = Some(ByteString(chain.into_bytes()));
    api(fixture)
        .replace_subresource("status", name(request), &PostParams::default(), &signed)
        .await?;
    Ok(())
}

fn is(request: &CertificateSigningRequest, condition: &str) -> bool {
    let conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| found.type_ == condition)
}

fn name(request: &CertificateSigningRequest) -> &str {
    request.metadata.name.as_deref().unwrap_or_default()
}

const HOUR: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);
const SHORT: jiff::SignedDuration = jiff::SignedDuration::from_secs(20);
