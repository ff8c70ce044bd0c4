//! The CA of an operator, in the files of Istio's Secret `cacerts`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

/// Root, and a CA below it that signs. The folder ends with the value.
pub(super) struct SharedCa {
    /// Certificate of the root in PEM.
    pub(super) root: String,
    folder: TempDir,
}

impl SharedCa {
    pub(super) fn create() -> Result<Self> {
        let (root_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
        let root = params("root")?.self_signed(&root_key)?.pem();
        let issuer = Issuer::new(params("root")?, root_key);
        let signing = params("signing")?.signed_by(&key, &issuer)?.pem();
        let ca = Self { root, folder: tempfile::tempdir().context("making a folder")? };
        for (name, text) in [
            ("root-cert.pem", &ca.root),
            ("ca-cert.pem", &signing),
            ("cert-chain.pem", &format!("{signing}{}", ca.root)),
            ("ca-key.pem", &key.serialize_pem()),
        ] {
            fs::write(ca.folder().join(name), text).with_context(|| format!("writing {name}"))?;
        }
        Ok(ca)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// File of the root.
    pub(super) fn root_file(&self) -> PathBuf {
        self.folder().join("root-cert.pem")
    }
}

fn params(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}
