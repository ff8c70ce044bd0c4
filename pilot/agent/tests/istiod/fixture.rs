//! istiod on an API server, and a workload's credentials for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use e2e::api_servers::ApiServers;
use e2e::istio_programs::{IstioPrograms, Istiod};
use e2e::kubectl::Kubectl;
use e2e::programs::Programs;
use e2e::run_folder::RunFolder;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::json;

/// Running istiod. Its programs end with this value.
pub(crate) struct Fixture {
    istiod: Mutex<Istiod>,
    root: PathBuf,
    additional_root: String,
    servers: ApiServers,
}

impl Fixture {
    /// Starts API server and istiod; `None` if the programs are not here.
    pub(crate) fn start() -> Result<Option<Self>> {
        let Some(istio) = IstioPrograms::find_if_any("the agent with istiod")? else {
            return Ok(None);
        };
        let Some(programs) = Programs::of_api_servers_if_any("the agent with istiod")? else {
            return Ok(None);
        };
        let servers = ApiServers::start(&programs, 1)?;
        let kubectl = servers.kubectl();
        istio.prepare(kubectl)?;
        kubectl.must(["create", "namespace", NAMESPACE])?;
        kubectl.must(["create", "serviceaccount", SERVICE_ACCOUNT, "-n", NAMESPACE])?;
        let additional_root = additional_root()?;
        // JSON is YAML.
        let mesh = json!({
            "defaultConfig": {"discoveryAddress": "istiod.istio-system.svc:15012"},
            "caCertificates": [{"pem": additional_root}],
        });
        let mesh = servers.folder().write("mesh", mesh.to_string())?;
        // Sends additional roots to agents.
        let istiod = Istiod::start(&istio, &servers, &mesh, &["ISTIO_MULTIROOT_MESH=true"])?;
        let root = servers.folder().node().join("root-cert.pem");
        let fixture = Self { istiod: Mutex::new(istiod), root, additional_root, servers };
        fixture.write_root()?;
        Ok(Some(fixture))
    }

    /// Returns `HOST:PORT` of istiod's port with TLS: xDS and certificate service.
    pub(crate) fn address(&self) -> String {
        self.istiod().secure().to_string()
    }

    /// Returns the file of the mesh's root certificate.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the root, as PEM, that the mesh trusts beside istiod's.
    pub(crate) fn additional_root(&self) -> &str {
        &self.additional_root
    }

    /// Returns the folder for files and logs of programs.
    pub(crate) fn folder(&self) -> &RunFolder {
        self.servers.folder()
    }

    /// Returns kubectl of the administrator.
    pub(crate) fn kubectl(&self) -> &Kubectl {
        self.servers.kubectl()
    }

    /// Requests a token of the workload's `ServiceAccount`, and returns its file.
    pub(crate) fn token(&self, audience: &str) -> Result<PathBuf> {
        let flag = format!("--audience={audience}");
        let arguments = ["create", "token", SERVICE_ACCOUNT, "-n", NAMESPACE, &flag];
        let token = self.kubectl().must(arguments)?;
        self.servers.folder().write(&format!("tokens/{audience}"), token.trim())
    }

    /// Kills istiod.
    pub(crate) fn kill_istiod(&self) -> Result<()> {
        self.istiod().kill()
    }

    /// Starts istiod again after [`Fixture::kill_istiod`], and waits until it is ready.
    pub(crate) fn restart_istiod(&self) -> Result<()> {
        self.istiod().start_again(self.servers.folder())
    }

    fn istiod(&self) -> MutexGuard<'_, Istiod> {
        self.istiod.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the root certificate as istiod publishes it in every namespace.
    fn write_root(&self) -> Result<()> {
        let get = ["get", "configmap", "istio-ca-root-cert", "-n", NAMESPACE];
        let path = r"-ojsonpath={.data.root-cert\.pem}";
        let pem = e2e::wait::until("istiod publishes its root", || {
            self.kubectl().must(get.into_iter().chain([path]))
        })?;
        fs::write(&self.root, pem).context("writing the root certificate")
    }
}

fn additional_root() -> Result<String> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(params.self_signed(&KeyPair::generate()?)?.pem())
}

/// Namespace of the workload.
pub(crate) const NAMESPACE: &str = "shop";
/// `ServiceAccount` of the workload.
pub(crate) const SERVICE_ACCOUNT: &str = "web";
/// Name in istiod's certificate.
pub(crate) const SERVER_NAME: &str = "istiod.istio-system.svc";
