//! Rejection of kube-controller-manager's own signers.

use anyhow::{Context, Result, bail, ensure};
use e2e::programs::Programs;
use e2e::skipped_tests;
use e2e::wait;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;
use tokio::sync::watch;
use webhook_certs::authority::{Authority, Entropy, Lifetime};
use webhook_certs::cluster::maintain;
use webhook_certs::options::Signer;
use webhook_certs::serving::ServingCertificate;
use webhook_certs::status::Status;

use crate::fixture::Fixture;

pub(crate) async fn kubernetes_own_signers_do_not_sign_for_webhooks(
    mut fixture: Fixture<'_>,
) -> Result<()> {
    let programs = Programs::find()?;
    if let Err(error) = programs.kubernetes("kube-controller-manager") {
        return skipped_tests::record("signers of Kubernetes itself", &format!("{error:#}"));
    }
    let lifetime = Lifetime::starting(Timestamp::now(), SignedDuration::from_hours(24));
    let ca = Authority::create("cluster", 1, lifetime, Entropy::draw()?)?;
    let folder = tempfile::tempdir()?;
    let (certificate, key) = (folder.path().join("ca.crt"), folder.path().join("ca.key"));
    std::fs::write(&certificate, ca.certificate_pem().as_bytes())?;
    std::fs::write(&key, ca.key_pem().as_bytes())?;
    let flags = [
        format!("--cluster-signing-cert-file={}", certificate.display()),
        format!("--cluster-signing-key-file={}", key.display()),
    ];
    let _manager = fixture.server.controller_manager(
        &programs,
        "certificatesigningrequest-signing-controller",
        &flags,
    )?;
    let requests = Api::<CertificateSigningRequest>::all(fixture.admin.clone());

    // The controller signs suitable requests.
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::CommonName, "other");
    let client = client.serialize_request(&KeyPair::generate()?)?.pem()?;
    let signer = "kubernetes.io/kube-apiserver-client";
    let name = request(&requests, signer, &client, "client auth").await?;
    let signed = answered(&requests, &name).await?;
    ensure!(signed.is_none(), "it failed: {signed:?}");

    let server = Entropy::draw()?.request(&fixture.options.names()?)?.pem;
    for signer in ["kubelet-serving", "kube-apiserver-client", "kube-apiserver-client-kubelet"] {
        let name =
            request(&requests, &format!("kubernetes.io/{signer}"), &server, "server auth").await?;
        let failed =
            answered(&requests, &name).await?.with_context(|| format!("{signer} signs"))?;
        let reason = failed.reason.clone().unwrap_or_default();
        ensure!(reason == "SignerValidationFailure", "{signer}: {failed:?}");
    }
    let legacy = "kubernetes.io/legacy-unknown";
    let refused = request(&requests, legacy, &server, "server auth").await;
    let refused = format!("{:#}", refused.err().context("legacy-unknown is accepted")?);
    ensure!(refused.contains("spec.signerName: Invalid value"), "{refused}");

    // So the program rejects these signers at the start.
    fixture.options.signer =
        Some(Signer { name: legacy.to_owned(), approve: false, authorities: None });
    let (status, _) = watch::channel(Status::default());
    let options = fixture.options.clone();
    let Err(error) =
        maintain(fixture.admin.clone(), options, ServingCertificate::new(), status).await;
    let error = error.to_string();
    ensure!(error.starts_with("--signer-name `kubernetes.io/legacy-unknown`: "), "{error}");
    ensure!(error.contains("; hint: "), "{error}");
    Ok(())
}

/// Creates and approves a certificate signing request, and returns its name.
async fn request(
    requests: &Api<CertificateSigningRequest>,
    signer: &str,
    pem: &str,
    usage: &str,
) -> Result<String> {
    let request = json!({
        "metadata": {"generateName": "of-the-test-"},
        "spec": {
            "request": ByteString(pem.as_bytes().to_vec()),
            "signerName": signer,
            "usages": ["digital signature", usage],
            "expirationSeconds": 3600,
        },
    });
    let request = serde_json::from_value(request)?;
    let created = requests.create(&PostParams::default(), &request).await?;
    let name = created.metadata.name.context("a request without a name")?;
    let condition = json!({"type": "Approved", "status": "True", "reason": "ByTheTest"});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    requests.patch_approval(&name, &PatchParams::default(), &patch).await?;
    Ok(name)
}

/// Waits for the certificate, or for the condition of its failure.
async fn answered(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
) -> Result<Option<CertificateSigningRequestCondition>> {
    wait::until_async("the request is answered", async || {
        let status = requests.get(name).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        if let Some(failed) = conditions.find(|condition| condition.type_ == "Failed") {
            return Ok(Some(failed));
        }
        if status.certificate.is_none() {
            bail!("not yet");
        }
        Ok(None)
    })
    .await
}
