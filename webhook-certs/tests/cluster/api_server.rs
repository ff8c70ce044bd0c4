//! A real API server with its store, on loopback, for as long as the stories run.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::config::AuthInfo;
use kube::{Api, Client, Config};
use rustix::process::{Pid, Signal, kill_process_group};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

/// etcd and kube-apiserver; both end with this value, or with the thread that started them.
pub(crate) struct ApiServer {
    port: u16,
    folder: TempDir,
    /// The API server, then its store: the order in which they end.
    _programs: [Program; 2],
}

impl ApiServer {
    /// Starts both programs; answers may still take a moment.
    pub(crate) fn start(programs: &Programs) -> Result<Self> {
        clear_what_killed_runs_left();
        let folder = tempfile::Builder::new()
            .prefix(&format!("{FOLDERS}{}-", std::process::id()))
            .tempdir()
            .context("making a folder for the API server")?;
        let path = |name: &str| folder.path().join(name);
        let (store, peer) = (url(free_port()?), url(free_port()?));
        let etcd = Program::start(
            &folder,
            &programs.etcd,
            &[
                "--unsafe-no-fsync".to_owned(),
                "--name=store".to_owned(),
                format!("--data-dir={}", path("store").display()),
                format!("--listen-client-urls={store}"),
                format!("--advertise-client-urls={store}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=store={peer}"),
            ],
        )?;
        let pair = rcgen::KeyPair::generate().context("making the service account key")?;
        fs::write(path("account.key"), pair.serialize_pem())?;
        fs::write(path("account.pub"), pair.public_key_pem())?;
        fs::write(path("tokens.csv"), format!("{ADMIN_TOKEN},admin,admin,system:masters\n"))?;
        fs::write(path("audit.json"), AUDIT_POLICY)?;
        let port = free_port()?;
        let api_server = Program::start(
            &folder,
            &programs.api_server,
            &[
                format!("--etcd-servers={store}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                // Nothing dials it, but a loopback address is refused.
                "--advertise-address=192.0.2.1".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
                format!("--cert-dir={}", path("certificates").display()),
                format!("--service-account-key-file={}", path("account.pub").display()),
                format!("--service-account-signing-key-file={}", path("account.key").display()),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--token-auth-file={}", path("tokens.csv").display()),
                "--authorization-mode=RBAC".to_owned(),
                format!("--audit-policy-file={}", path("audit.json").display()),
                format!("--audit-log-path={}", path(AUDIT_LOG).display()),
            ],
        )?;
        Ok(Self { port, folder, _programs: [api_server, etcd] })
    }

    /// Makes a client of the administrator, once the API server is ready.
    pub(crate) async fn admin(&self) -> Result<Client> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match self.ready().await {
                Ok(client) => return Ok(client),
                Err(error) if tokio::time::Instant::now() > deadline => {
                    let logs = self.folder.path();
                    let log = fs::read_to_string(logs.join("kube-apiserver.log"));
                    let log = log.unwrap_or_default();
                    let tail = log.len().saturating_sub(2000);
                    bail!("the API server is not ready: {error:#}\n{}", &log[tail..]);
                }
                Err(_) => tokio::time::sleep(BETWEEN_PROBES).await,
            }
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Makes a client that shows `token` and dials `port`.
    pub(crate) fn client(&self, token: &str, port: u16) -> Result<Client> {
        let certificate = self.folder.path().join("certificates/apiserver.crt");
        let roots = CertificateDer::pem_file_iter(&certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| format!("reading {}", certificate.display()))?;
        let address = format!("https://127.0.0.1:{port}");
        let mut config = Config::new(address.parse().context("the API server's address")?);
        config.root_cert = Some(roots.iter().map(|root| root.to_vec()).collect());
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        Client::try_from(config).context("making a client")
    }

    /// Reads what was asked of the API server so far, as audit events.
    pub(crate) fn audit(&self) -> Result<Vec<Value>> {
        let log = fs::read_to_string(self.folder.path().join(AUDIT_LOG))?;
        // The last line may still be on its way.
        Ok(log.lines().map_while(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Writes a kubeconfig of the administrator.
    pub(crate) fn kubeconfig(&self) -> Result<PathBuf> {
        let authority = self.folder.path().join("certificates/apiserver.crt");
        let server = format!("https://127.0.0.1:{}", self.port);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": "c",
                "cluster": {"server": server, "certificate-authority": authority},
            }],
            "users": [{"name": "u", "user": {"token": ADMIN_TOKEN}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        let path = self.folder.path().join("kubeconfig");
        fs::write(&path, config.to_string())?;
        Ok(path)
    }

    async fn ready(&self) -> Result<Client> {
        let client = self.client(ADMIN_TOKEN, self.port)?;
        Api::<Namespace>::all(client.clone()).get("default").await?;
        Ok(client)
    }
}

/// The programs of an API server on this machine.
pub(crate) struct Programs {
    api_server: PathBuf,
    etcd: PathBuf,
}

impl Programs {
    /// Finds them where the end-to-end tests put them, or in `KUBEBUILDER_ASSETS`.
    pub(crate) fn find() -> Result<Self> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
            || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
            PathBuf::from,
        );
        let version = include_str!("../../../tests/kubernetes/go.mod")
            .lines()
            .find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "))
            .context("tests/kubernetes/go.mod names no version")?;
        let built = cache.join(format!("outrigger/kubernetes-{version}"));
        let find = |name: &str, folders: &[PathBuf]| {
            let found = folders.iter().map(|folder| folder.join(name));
            let program = found.into_iter().find(|path| path.exists());
            program.with_context(|| format!("{name} is not here; hint: make setup"))
        };
        let folders: Vec<_> = assets.into_iter().chain([built, "/usr/bin".into()]).collect();
        Ok(Self { api_server: find("kube-apiserver", &folders)?, etcd: find("etcd", &folders)? })
    }
}

/// A child in a process group of its own.
struct Program(Child);

impl Program {
    fn start(folder: &TempDir, program: &Path, args: &[String]) -> Result<Self> {
        let name = program.file_name().unwrap_or_default().display();
        let log = folder.path().join(format!("{name}.log"));
        let log = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        // Asking for the death signal needs code between fork and exec, so setpriv does it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("sharing the log file")?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Self(child))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// A run that was killed leaves its folder, called by its process; the kernel ends the programs.
fn clear_what_killed_runs_left() {
    let folders = fs::read_dir(std::env::temp_dir());
    for folder in folders.into_iter().flatten().flatten() {
        let name = folder.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(FOLDERS));
        let process = process.and_then(|rest| rest.split_once('-'));
        if process.is_some_and(|(id, _)| !Path::new("/proc").join(id).exists()) {
            // Another run may be clearing too.
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("finding a free port")?;
    Ok(listener.local_addr().context("finding a free port")?.port())
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

const FOLDERS: &str = "outrigger-webhook-certs-";
const AUDIT_LOG: &str = "audit.log";
const AUDIT_POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]
}"#;
const ADMIN_TOKEN: &str = "administrator-of-the-stories";
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN_PROBES: Duration = Duration::from_millis(100);
