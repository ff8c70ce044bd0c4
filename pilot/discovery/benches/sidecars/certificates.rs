//! Certificates of the workloads, the same for both pairs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use e2e::mesh_authority::{MeshAuthority, WorkloadLeaf};

/// A CA, which signs for both workloads.
pub(crate) struct Certificates {
    authority: MeshAuthority,
}

/// Files of a workload's certificate.
pub(crate) struct CertificateFiles {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) roots: PathBuf,
}

impl Certificates {
    pub(crate) fn create() -> Self {
        Self { authority: MeshAuthority::create().unwrap() }
    }

    /// Writes a certificate with the names of mounted workload certificates.
    pub(crate) fn write(&self, folder: &Path, identity: &str) -> CertificateFiles {
        let (chain, key) = self.authority.issue(&WorkloadLeaf::new(identity, LIFETIME)).unwrap();
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        CertificateFiles {
            chain: write("cert-chain.pem", &chain),
            key: write("key.pem", &key),
            roots: write("root-cert.pem", self.authority.root()),
        }
    }
}

const LIFETIME: Duration = Duration::from_secs(24 * 3600);
