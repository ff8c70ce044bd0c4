//! istiod on an API server, and a workload's credentials for it.

use std::fs;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api_servers::ApiServers;
use e2e::http;
use e2e::kubectl::Kubectl;
use e2e::port::free_port;
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::run_folder::RunFolder;
use e2e::skipped_tests;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::json;

/// Running istiod. Its programs end with this value.
pub(crate) struct Fixture {
    istiod: Mutex<Process>,
    program: PathBuf,
    arguments: Vec<String>,
    ports: Ports,
    root: PathBuf,
    additional_root: String,
    servers: ApiServers,
}

struct Ports {
    secure: u16,
    http: u16,
}

impl Fixture {
    /// Starts API server and istiod; `None` if the programs are not here.
    pub(crate) fn start() -> Result<Option<Self>> {
        let Some(folder) = std::env::var_os("ISTIO_PROGRAMS").map(PathBuf::from) else {
            skipped_tests::record("the agent with istiod", "ISTIO_PROGRAMS is not set")?;
            return Ok(None);
        };
        let Some(programs) = Programs::of_api_servers_if_any("the agent with istiod")? else {
            return Ok(None);
        };
        let servers = ApiServers::start(&programs, 1)?;
        let kubectl = servers.kubectl();
        let crds = folder.join("istio-crds.yaml");
        kubectl.must(["apply", "--server-side", "-f", &crds.display().to_string()])?;
        kubectl.must(["create", "namespace", "istio-system"])?;
        kubectl.must(["create", "namespace", NAMESPACE])?;
        kubectl.must(["create", "serviceaccount", SERVICE_ACCOUNT, "-n", NAMESPACE])?;
        let program = unpack(&folder.join("pilot-discovery.zst"), &servers.folder().node())?;
        let ports = Ports { secure: free_port()?, http: free_port()? };
        let additional_root = additional_root()?;
        let arguments = arguments(&servers, &ports, &additional_root)?;
        let istiod = start(&servers, &program, &arguments, &ports)?;
        let root = servers.folder().node().join("root-cert.pem");
        let istiod = Mutex::new(istiod);
        let fixture = Self { istiod, program, arguments, ports, root, additional_root, servers };
        fixture.write_root()?;
        Ok(Some(fixture))
    }

    /// Returns `HOST:PORT` of istiod's port with TLS: xDS and certificate service.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.secure)
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
        self.istiod.lock().unwrap_or_else(PoisonError::into_inner).kill()
    }

    /// Starts istiod again after [`Fixture::kill_istiod`], and waits until it is ready.
    pub(crate) fn restart_istiod(&self) -> Result<()> {
        let started = start(&self.servers, &self.program, &self.arguments, &self.ports)?;
        *self.istiod.lock().unwrap_or_else(PoisonError::into_inner) = started;
        Ok(())
    }

    /// Writes the root certificate as istiod publishes it in every namespace.
    fn write_root(&self) -> Result<()> {
        let get = ["get", "configmap", "istio-ca-root-cert", "-n", NAMESPACE];
        let path = r"-ojsonpath={.data.root-cert\.pem}";
        let pem = e2e::wait::until("istiod publishes its root", PATIENCE, || {
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

fn arguments(servers: &ApiServers, ports: &Ports, root: &str) -> Result<Vec<String>> {
    // JSON is YAML.
    let mesh = json!({
        "defaultConfig": {"discoveryAddress": "istiod.istio-system.svc:15012"},
        "caCertificates": [{"pem": root}],
    });
    let mesh = servers.folder().write("mesh", mesh.to_string())?;
    let local = |port: u16| format!("127.0.0.1:{port}");
    Ok(vec![
        "discovery".to_owned(),
        format!("--kubeconfig={}", servers.admin_kubeconfig().display()),
        format!("--meshConfig={}", mesh.display()),
        format!("--grpcAddr={}", local(free_port()?)),
        format!("--secureGRPCAddr={}", local(ports.secure)),
        format!("--httpAddr={}", local(ports.http)),
        format!("--httpsAddr={}", local(free_port()?)),
        format!("--monitoringAddr={}", local(free_port()?)),
        format!("--ctrlz_port={}", free_port()?),
    ])
}

fn start(
    servers: &ApiServers,
    program: &Path,
    arguments: &[String],
    ports: &Ports,
) -> Result<Process> {
    // It writes into its working directory.
    let folder = servers.folder().folder("istiod")?;
    let in_folder = [
        format!("--chdir={}", folder.display()),
        "POD_NAMESPACE=istio-system".to_owned(),
        "POD_NAME=istiod-1".to_owned(),
        // Sends additional roots to agents.
        "ISTIO_MULTIROOT_MESH=true".to_owned(),
        program.display().to_string(),
    ];
    let command = in_folder.iter().chain(arguments);
    let mut istiod =
        Process::start(servers.folder(), "istiod", Path::new("/usr/bin/env"), command)?;
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.http));
    istiod.wait_until("istiod is ready", PATIENCE, || http::get(server, "/ready")?.expect_ok())?;
    Ok(istiod)
}

fn unpack(packed: &Path, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("pilot-discovery");
    let output = File::create(&program).context("creating pilot-discovery")?;
    let input = File::open(packed).with_context(|| format!("opening {}", packed.display()))?;
    let mut zstd = Command::new("zstd");
    let status = zstd.args(["-d", "-c"]).stdin(Stdio::from(input)).stdout(output).status();
    let status = status.context("starting zstd; hint: make setup")?;
    ensure!(status.success(), "zstd: {status}");
    let mut permissions = fs::metadata(&program)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    fs::set_permissions(&program, permissions).context("making pilot-discovery executable")?;
    Ok(program)
}

/// Namespace of the workload.
pub(crate) const NAMESPACE: &str = "shop";
/// `ServiceAccount` of the workload.
pub(crate) const SERVICE_ACCOUNT: &str = "web";
/// Name in istiod's certificate.
pub(crate) const SERVER_NAME: &str = "istiod.istio-system.svc";
const PATIENCE: Duration = Duration::from_secs(60);
