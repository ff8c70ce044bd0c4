//! Istio's own programs, from the directory in `ISTIO_PROGRAMS`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::api_servers::ApiServers;
use crate::http;
use crate::kubectl::Kubectl;
use crate::port::free_port;
use crate::process::Process;
use crate::run_folder::RunFolder;
use crate::skipped_tests;

/// Directory with Istio's programs, as `make setup` builds it.
#[derive(Clone, Debug)]
pub struct IstioPrograms {
    folder: PathBuf,
}

impl IstioPrograms {
    /// Returns `None` if the directory is not named, which leaves `tests` out.
    pub fn find_if_any(tests: &str) -> Result<Option<Self>> {
        match std::env::var_os("ISTIO_PROGRAMS") {
            Some(folder) => Ok(Some(Self { folder: folder.into() })),
            None => skipped_tests::record(tests, "ISTIO_PROGRAMS is not set").map(|()| None),
        }
    }

    /// Applies the definitions of Istio's kinds, and creates its namespace.
    pub fn prepare(&self, kubectl: &Kubectl) -> Result<()> {
        let crds = self.folder.join("istio-crds.yaml").display().to_string();
        kubectl.must(["apply", "--server-side", "-f", &crds])?;
        kubectl.must(["create", "namespace", "istio-system"])?;
        Ok(())
    }

    /// Returns the path of a program.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let program = self.folder.join(name);
        ensure!(
            program.exists(),
            "ISTIO_PROGRAMS: {} does not exist; hint: make setup builds it",
            program.display()
        );
        Ok(program)
    }
}

/// Running istiod. It ends with the value.
#[derive(Debug)]
pub struct Istiod {
    process: Process,
    plain: u16,
    secure: u16,
    http: u16,
}

impl Istiod {
    /// Starts istiod for the first API server with a file of mesh settings, and waits until it is
    /// ready. `environment` are further variables.
    pub fn start(
        programs: &IstioPrograms,
        servers: &ApiServers,
        mesh: &Path,
        environment: &[&str],
    ) -> Result<Self> {
        let program = programs.program("pilot-discovery")?;
        let (plain, secure, http) = (free_port()?, free_port()?, free_port()?);
        // It writes into its working directory.
        let folder = servers.folder().folder("istiod")?;
        let fixed = [
            format!("--chdir={}", folder.display()),
            "POD_NAMESPACE=istio-system".to_owned(),
            "POD_NAME=istiod-1".to_owned(),
        ];
        let local = |port: u16| format!("127.0.0.1:{port}");
        let arguments = [
            program.display().to_string(),
            "discovery".to_owned(),
            format!("--kubeconfig={}", servers.admin_kubeconfig().display()),
            format!("--meshConfig={}", mesh.display()),
            format!("--grpcAddr={}", local(plain)),
            format!("--secureGRPCAddr={}", local(secure)),
            format!("--httpAddr={}", local(http)),
            format!("--httpsAddr={}", local(free_port()?)),
            format!("--monitoringAddr={}", local(free_port()?)),
            format!("--ctrlz_port={}", free_port()?),
        ];
        let environment = environment.iter().map(|entry| (*entry).to_owned());
        let command = fixed.into_iter().chain(environment).chain(arguments);
        let process =
            Process::start(servers.folder(), "istiod", Path::new("/usr/bin/env"), command)?;
        let mut istiod = Self { process, plain, secure, http };
        istiod.wait_until_ready()?;
        Ok(istiod)
    }

    /// Address of xDS in plaintext.
    pub fn plain(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.plain).into()
    }

    /// Address of xDS and the certificate service, with TLS.
    pub fn secure(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.secure).into()
    }

    /// Kills istiod.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// Starts the killed istiod again, and waits until it is ready.
    pub fn start_again(&mut self, folder: &RunFolder) -> Result<()> {
        self.process.start_again(folder)?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.http));
        let probe = || http::get(server, "/ready")?.expect_ok();
        self.process.wait_until("istiod is ready", probe).map(drop)
    }
}
