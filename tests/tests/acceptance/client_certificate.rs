//! A23: API servers with client certificates.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use e2e::wait;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tempfile::TempDir;

use crate::caller::{Caller, review};
use crate::fixture::Fixture;
use crate::load::{self, Tally};

/// A23
pub(crate) async fn only_api_servers_with_a_valid_certificate_are_served(
    fixture: &mut Fixture<'_>,
) -> Result<()> {
    let shared = fixture.shared;
    // A CA other than that of the API servers' certificate.
    let foreign = Authority::create()?;
    let foreign_ca = shared.client.directory.path().join("foreign.pem");
    fs::write(&foreign_ca, &foreign.pem)?;
    fixture.flag("client-ca-file", &foreign_ca.display().to_string());
    fixture.flag("client-allowed-names", NAME);
    fixture.start(1)?;
    fixture.until_ready()?;
    fixture.configure().await?;
    for client in &shared.admins {
        wait::until_async("the webhook rejects the API server's certificate", async || {
            match load::create(client.clone()).await {
                Err(error) if format!("{error:#}").contains("remote error: tls: ") => Ok(()),
                other => bail!("{other:?}"),
            }
        })
        .await?;
    }
    let refused = "sidecar_injector_handshake_failures_total{cause=\"client_certificate_refused\"}";
    fixture.replicas[0].until_metric(refused, |count| count > 0)?;

    // The file is watched: from here on the API servers' own CA counts.
    let new = shared.client.directory.path().join("new.pem");
    fs::copy(&shared.client.authority, &new)?;
    fs::rename(&new, &foreign_ca)?;
    fixture.until_injected().await?;
    let load = fixture.load();
    load.until_admitted(100).await?;

    let address = fixture.replicas[0].address();
    let bundle = fixture.until_published().await?.bundle();
    let table = [
        ("none", None, "client_certificate_missing"),
        ("foreign", Some(foreign.issue(NAME)?), "client_certificate_refused"),
        ("misnamed", Some(shared.client.issuer.issue("system:node:one")?), "client_name_refused"),
    ];
    for (what, identity, cause) in table {
        let metric = format!("sidecar_injector_handshake_failures_total{{cause=\"{cause}\"}}");
        let before = fixture.replicas[0].metric(&metric)?;
        let identity = identity.map(|identity| (identity.chain(), identity.key()));
        let asked =
            async { Caller::connect_as(address, &bundle, identity).await?.review(&review()).await };
        ensure!(asked.await.is_err(), "{what}: it was served");
        fixture.replicas[0].until_metric(&metric, |count| count > before)?;
    }
    let right = shared.client.issuer.issue(NAME)?;
    let right = Some((right.chain(), right.key()));
    Caller::connect_as(address, &bundle, right).await?.review(&review()).await?;

    let tally: Tally = load.stop().await?;
    fixture.tell(&tally, "")?;
    tally.expect_no_failure()
}

/// Client certificate that API servers present to a webhook on request.
pub(crate) struct ClientIdentity {
    directory: TempDir,
    issuer: Authority,
    /// The CA, in PEM.
    authority: PathBuf,
    configuration: PathBuf,
}

impl ClientIdentity {
    pub(crate) fn create() -> Result<Self> {
        let directory = TempDir::new()?;
        let path = |name: &str| directory.path().join(name);
        let issuer = Authority::create()?;
        let identity = issuer.issue(NAME)?;
        write(&path("client.crt"), &identity.certificate.pem())?;
        write(&path("client.key"), &identity.key.serialize_pem())?;
        write(&path("ca.pem"), &issuer.pem)?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config",
            "users": [{
                "name": "sidecar-injector.istio-system.svc",
                "user": {
                    "client-certificate": path("client.crt"),
                    "client-key": path("client.key"),
                },
            }],
        });
        write(&path("kubeconfig"), &kubeconfig.to_string())?;
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
            "plugins": [{
                "name": "MutatingAdmissionWebhook",
                "configuration": {
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "WebhookAdmissionConfiguration",
                    "kubeConfigFile": path("kubeconfig"),
                },
            }],
        });
        write(&path("admission.json"), &configuration.to_string())?;
        let (authority, configuration) = (path("ca.pem"), path("admission.json"));
        Ok(Self { directory, issuer, authority, configuration })
    }

    pub(crate) fn api_server_flag(&self) -> String {
        format!("--admission-control-config-file={}", self.configuration.display())
    }
}

/// A CA of clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate of a client.
struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn create() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "clients");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(parameters, key), pem })
    }

    fn issue(&self, common_name: &str) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, common_name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        Ok(Identity { certificate: parameters.signed_by(&key, &self.issuer)?, key })
    }
}

impl Identity {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.der().clone()]
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()))
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    Ok(fs::write(path, text)?)
}

/// The name of the API servers in their certificate.
const NAME: &str = "kube-apiserver";
