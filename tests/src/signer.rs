//! A signer of the cluster, as another program implements it: it signs approved requests.

use anyhow::{Context, Result};
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestStatus,
};
use k8s_openapi::{ByteString, List};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

use crate::kubectl::Kubectl;
use crate::mesh_authority::set_validity;

/// A CA, and the name of the signer for which it signs.
#[derive(Debug)]
pub struct Signer {
    name: String,
    authority: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Signer {
    /// Creates a CA for a signer's name, such as `example.com/serving`.
    pub fn create(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        set_validity(&mut params);
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?.pem();
        Ok(Self { name: name.to_owned(), authority, issuer: Issuer::new(params, key) })
    }

    /// Returns the CA's certificate in PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Signs each approved request without a certificate. Returns their number.
    pub fn sign_approved(&self, kubectl: &Kubectl) -> Result<usize> {
        let found = kubectl.must(["get", "--raw", REQUESTS])?;
        let found: List<CertificateSigningRequest> =
            serde_json::from_str(&found).context("reading certificate signing requests")?;
        let mut signed = 0;
        for mut request in found.items {
            if self.sign(&mut request)? {
                let name = request.metadata.name.as_deref().context("a request without a name")?;
                let path = format!("{REQUESTS}/{name}/status");
                let replace = ["replace", "--raw", &path, "--filename", "-"];
                kubectl.must_with_input(replace, &serde_json::to_string(&request)?)?;
                signed += 1;
            }
        }
        Ok(signed)
    }

    /// Signs as [`Signer::sign_approved`], with the permissions of a client.
    pub async fn sign_approved_with(&self, client: &Client) -> Result<usize> {
        let requests = Api::<CertificateSigningRequest>::all(client.clone());
        let mut signed = 0;
        for mut request in requests.list(&ListParams::default()).await? {
            if self.sign(&mut request)? {
                let name = request.metadata.name.as_deref().context("a request without a name")?;
                requests.replace_status(name, &PostParams::default(), &request).await?;
                signed += 1;
            }
        }
        Ok(signed)
    }

    /// Sets the certificate of a request that is for this signer and approved. Returns `false` if
    /// it is not, or has a certificate.
    fn sign(&self, request: &mut CertificateSigningRequest) -> Result<bool> {
        let is_ours = request.spec.signer_name == self.name;
        let status = request.status.get_or_insert_with(CertificateSigningRequestStatus::default);
        let mut conditions = status.conditions.iter().flatten();
        let is_approved = conditions.any(|condition| condition.type_ == "Approved");
        if !is_ours || !is_approved || status.certificate.is_some() {
            return Ok(false);
        }
        let pem = std::str::from_utf8(&request.spec.request.0).context("a request in PEM")?;
        let mut asked = CertificateSigningRequestParams::from_pem(pem)?;
        set_validity(&mut asked.params);
        status.certificate = Some(ByteString(asked.signed_by(&self.issuer)?.pem().into()));
        Ok(true)
    }
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
