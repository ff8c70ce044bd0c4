//! Client certificate of the API server for the kubelet.

use std::path::PathBuf;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

use crate::run_folder::RunFolder;

/// A client certificate of the API server, and its CA. The kubelet runs commands in containers only
/// for this client.
#[derive(Debug)]
pub(crate) struct KubeletAccess {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl KubeletAccess {
    /// Issues both for one run.
    pub(crate) fn create(folder: &RunFolder) -> Result<Self> {
        let (authority, certificate, key) = issue().context("issuing the kubelet's client")?;
        Ok(Self {
            authority: folder.write("kubelet-access/ca.pem", authority)?,
            certificate: folder.write("kubelet-access/client.pem", certificate)?,
            key: folder.write("kubelet-access/client.key", key)?,
        })
    }
}

fn issue() -> Result<(String, String, String), rcgen::Error> {
    let mut authority = CertificateParams::new([])?;
    authority.distinguished_name.push(DnType::CommonName, "kubelet clients");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut client = CertificateParams::new([])?;
    client.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    client.distinguished_name.push(DnType::OrganizationName, "system:masters");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let client_key = KeyPair::generate()?;
    let client_certificate = client.signed_by(&client_key, &issuer)?.pem();
    Ok((authority_certificate, client_certificate, client_key.serialize_pem()))
}
