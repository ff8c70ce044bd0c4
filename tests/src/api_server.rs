//! kube-apiserver, as part of a node or alone.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::etcd::Etcd;
use crate::identity::{Identity, Server};
use crate::port::free_port;
use crate::process::Process;
use crate::run_folder::RunFolder;

/// A started API server, which may not be ready yet.
#[derive(Debug)]
pub(crate) struct ApiServer {
    pub(crate) server: Server,
    pub(crate) process: Process,
}

/// Input that every API server needs.
pub(crate) struct Parts<'a> {
    pub(crate) folder: &'a RunFolder,
    pub(crate) program: &'a Path,
    pub(crate) etcd: &'a Etcd,
    pub(crate) keys: &'a ServiceAccountKeys,
    /// The secret from which the clients' tokens are derived.
    pub(crate) secret: &'a str,
}

impl ApiServer {
    /// Starts an API server that listens on `address`, with further flags.
    pub(crate) fn start(
        parts: &Parts<'_>,
        name: &str,
        address: Ipv4Addr,
        flags: impl IntoIterator<Item = String>,
    ) -> Result<Self> {
        let Parts { folder, program, etcd, keys, secret } = parts;
        let certificates = folder.folder(&format!("{name}-certificates"))?;
        let port = free_port()?;
        let tokens = folder.write(&format!("{name}-tokens.csv"), Identity::token_file(secret))?;
        let common = [
            format!("--etcd-servers={}", etcd.url()),
            format!("--secure-port={port}"),
            // The API server creates its own certificate, for this address and the Service's.
            format!("--bind-address={address}"),
            format!("--cert-dir={}", certificates.display()),
            format!("--service-account-key-file={}", keys.public.display()),
            format!("--service-account-signing-key-file={}", keys.private.display()),
            format!("--service-account-issuer={ISSUER}"),
            // istio-ca is the audience of the proxy's token for its CA.
            format!("--api-audiences={ISSUER},istio-ca"),
            format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            format!("--token-auth-file={}", tokens.display()),
            "--allow-privileged=true".to_owned(),
        ];
        let process = Process::start(folder, name, program, common.into_iter().chain(flags))?;
        let authority = certificates.join("apiserver.crt");
        let server = Server { address, port, authority, secret: (*secret).to_owned() };
        Ok(Self { server, process })
    }
}

/// Keys for signing and verifying tokens of service accounts.
#[derive(Debug)]
pub(crate) struct ServiceAccountKeys {
    pub(crate) private: PathBuf,
    pub(crate) public: PathBuf,
}

impl ServiceAccountKeys {
    pub(crate) fn create(folder: &RunFolder) -> Result<Self> {
        let pair = rcgen::KeyPair::generate().context("making the service account key")?;
        Ok(Self {
            private: folder.write("service-account.key", pair.serialize_pem())?,
            public: folder.write("service-account.pub", pair.public_key_pem())?,
        })
    }
}

/// Address ranges of Services. A Service has an IPv6 address if it asks for one.
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/24,fd96::/112";
const ISSUER: &str = "https://kubernetes.default.svc";
