//! API servers with a common store and without a node, for programs that only use the API.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result};
use hyper::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rustix::process::Signal;
use serde_json::Value;

use crate::api_server::{ApiServer, Parts, ServiceAccountKeys};
use crate::etcd::Etcd;
use crate::identity::{Identity, Server, new_secret};
use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::programs::Programs;
use crate::run_folder::RunFolder;

/// Running API servers that share one etcd. All of them end with this value, or with the thread
/// that started it.
///
/// No other part of a cluster runs: no controller creates service accounts, so pods need none, and
/// there is no node. The audit log has every request except those for leases.
#[derive(Debug)]
pub struct ApiServers {
    servers: Vec<ApiServer>,
    kubectl: Kubectl,
    shared: Shared,
    etcd: Etcd,
    folder: RunFolder,
}

/// Input that all API servers of a store share.
#[derive(Debug)]
struct Shared {
    program: PathBuf,
    keys: ServiceAccountKeys,
    secret: String,
    policy: PathBuf,
}

impl Shared {
    fn start(
        &self,
        folder: &RunFolder,
        etcd: &Etcd,
        index: usize,
        further: &[String],
    ) -> Result<ApiServer> {
        let Self { program, keys, secret, policy } = self;
        let parts = Parts { folder, program, etcd, keys, secret };
        let flags = [
            // No client connects to this address, but the API server rejects a loopback address.
            "--advertise-address=192.0.2.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", audit_log(folder, index).display()),
        ];
        let with_accounts = further.iter().any(|flag| flag == WITH_SERVICE_ACCOUNTS);
        let without = (!with_accounts).then(|| WITHOUT_SERVICE_ACCOUNTS.to_owned());
        let flags = flags.into_iter().chain(without).chain(further.iter().cloned());
        ApiServer::start(&parts, &format!("kube-apiserver-{index}"), Ipv4Addr::LOCALHOST, flags)
    }
}

/// A running API server of [`ApiServers::start_further`].
#[derive(Debug)]
pub struct FurtherApiServer(ApiServer);

impl Drop for FurtherApiServer {
    fn drop(&mut self) {
        let _ = self.0.process.kill();
    }
}

impl FurtherApiServer {
    /// Returns a client of the administrator.
    pub async fn admin(&self) -> Result<Client> {
        admin(&self.0.server).await
    }
}

impl ApiServers {
    /// Starts etcd and `count` API servers, and waits until each is ready.
    ///
    /// The programs come from `KUBEBUILDER_ASSETS` if it is set.
    pub fn start(programs: &Programs, count: usize) -> Result<Self> {
        Self::start_with(programs, count, &[])
    }

    /// Starts API servers as [`ApiServers::start`], each with further flags.
    pub fn start_with(programs: &Programs, count: usize, further: &[String]) -> Result<Self> {
        Self::start_each(programs, &vec![further; count])
    }

    /// Starts API servers as [`ApiServers::start`], one for each list of further flags.
    pub fn start_each(programs: &Programs, further: &[&[String]]) -> Result<Self> {
        let folder = RunFolder::of_process()?;
        let etcd = Etcd::start(&folder, &programs.asset("etcd")?)?;
        let shared = Shared {
            program: programs.asset("kube-apiserver")?,
            keys: ServiceAccountKeys::create(&folder)?,
            secret: new_secret()?,
            policy: folder.write("audit-policy.json", AUDIT_POLICY)?,
        };
        let start =
            |(index, further): (usize, &&[String])| shared.start(&folder, &etcd, index, further);
        let mut servers: Vec<_> = further.iter().enumerate().map(start).collect::<Result<_>>()?;
        servers.iter_mut().try_for_each(until_ready)?;
        let first = &servers.first().context("no API server was asked for")?.server;
        let admin = Identity::Admin.kubeconfig(&folder, first)?;
        let kubectl = Kubectl::from_program(programs.asset("kubectl")?, admin);
        Ok(Self { servers, kubectl, shared, etcd, folder })
    }

    /// Starts a further API server of the store, which is not one of the others by index, and waits
    /// until it is ready. It ends with its value, or with the thread that started it.
    pub fn start_further(&self, flags: &[String]) -> Result<FurtherApiServer> {
        let index = self.servers.len();
        let mut further = self.shared.start(&self.folder, &self.etcd, index, flags)?;
        until_ready(&mut further)?;
        Ok(FurtherApiServer(further))
    }

    /// Returns the number of API servers.
    pub fn count(&self) -> usize {
        self.servers.len()
    }

    /// Returns kubectl as the administrator, for the first API server.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Returns the port of an API server on this machine's loopback address.
    pub fn port(&self, index: usize) -> u16 {
        self.servers[index].server.port
    }

    /// Returns a client of the administrator.
    pub async fn admin(&self, index: usize) -> Result<Client> {
        admin(&self.servers[index].server).await
    }

    /// Returns a client with `token`.
    pub async fn client(&self, index: usize, token: &str) -> Result<Client> {
        self.client_by(self.port(index), index, token).await
    }

    /// Returns a client with `token` that connects to the API server through another port.
    pub async fn client_by(&self, port: u16, index: usize, token: &str) -> Result<Client> {
        client(&self.servers[index].server.with_port(port), token).await
    }

    /// Writes the kubeconfig of a user with a token.
    pub fn kubeconfig(&self, index: usize, user: &str, token: &str) -> Result<PathBuf> {
        let config = self.servers[index].server.kubeconfig(user, token);
        self.folder.write(&format!("kubeconfig/{user}-{index}"), config.to_string())
    }

    /// Returns the administrator's kubeconfig for the first API server.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubectl.kubeconfig().to_owned()
    }

    /// Suspends an API server, as on a machine that hangs.
    pub fn pause(&self, index: usize) -> Result<()> {
        self.servers[index].process.signal(Signal::STOP)
    }

    /// Resumes a suspended API server.
    pub fn resume(&self, index: usize) -> Result<()> {
        self.servers[index].process.signal(Signal::CONT)
    }

    /// Kills an API server.
    pub fn kill(&mut self, index: usize) -> Result<()> {
        self.servers[index].process.kill()
    }

    /// Starts a killed API server again on its port, and waits until it is ready.
    pub fn start_again(&mut self, index: usize) -> Result<()> {
        let ApiServer { server, process } = &mut self.servers[index];
        process.start_again(&self.folder)?;
        process.wait_until("the API server is ready again", || answers(server, "/readyz"))
    }

    /// Kills the store of all API servers, and starts it again with its data.
    pub fn restart_store(&mut self) -> Result<()> {
        self.etcd.restart(&self.folder)
    }

    /// Suspends the store of all API servers.
    pub fn pause_store(&self) -> Result<()> {
        self.etcd.signal(Signal::STOP)
    }

    /// Resumes the store.
    pub fn resume_store(&self) -> Result<()> {
        self.etcd.signal(Signal::CONT)
    }

    /// Starts a kube-controller-manager of the first API server with only these controllers and
    /// with further flags. It ends with its value, or with the thread that started it.
    pub fn controller_manager(
        &self,
        programs: &Programs,
        controllers: &str,
        further: &[String],
    ) -> Result<Process> {
        let flags = [
            // The administrator's rights make roles for the controllers unnecessary.
            format!("--kubeconfig={}", self.admin_kubeconfig().display()),
            format!("--controllers={controllers}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let program = programs.kubernetes("kube-controller-manager")?;
        let flags = flags.iter().chain(further);
        Process::start(&self.folder, "kube-controller-manager", &program, flags)
    }

    /// Returns the current end of all audit logs.
    pub fn audited(&self) -> Result<Audited> {
        let end = |index| {
            let log = self.audit_log(index, 0)?;
            Ok(log.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last as u64 + 1))
        };
        (0..self.servers.len()).map(end).collect::<Result<_>>().map(Audited)
    }

    /// Returns all requests to the API servers so far, as audit events.
    pub fn audit(&self) -> Result<Vec<Value>> {
        self.audit_since(&Audited(vec![0; self.servers.len()]))
    }

    /// Returns the requests as [`ApiServers::audit`], without those answered before `since`.
    pub fn audit_since(&self, since: &Audited) -> Result<Vec<Value>> {
        let mut events = Vec::new();
        for (index, begin) in since.0.iter().enumerate() {
            let log = self.audit_log(index, *begin)?;
            let lines = log.split(|byte| *byte == b'\n');
            // The last line may be incomplete.
            events.extend(lines.map_while(|line| serde_json::from_slice(line).ok()));
        }
        Ok(events)
    }

    fn audit_log(&self, index: usize, begin: u64) -> Result<Vec<u8>> {
        let path = audit_log(&self.folder, index);
        let read = || {
            let mut log = File::open(&path)?;
            log.seek(SeekFrom::Start(begin))?;
            let mut bytes = Vec::new();
            log.read_to_end(&mut bytes)?;
            std::io::Result::Ok(bytes)
        };
        read().with_context(|| format!("reading {}", path.display()))
    }

    /// Returns the folder for files and logs of programs beside the API servers.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }
}

impl Drop for ApiServers {
    /// Kills the programs: their shutdown takes up to twenty seconds, and their data are removed.
    fn drop(&mut self) {
        for ApiServer { process, .. } in &mut self.servers {
            // One that has ended is as good.
            let _ = process.kill();
        }
        let _ = self.etcd.kill();
    }
}

/// A position in the audit logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audited(Vec<u64>);

/// Flag for an API server whose namespaces have service accounts, by a controller of the test.
pub const WITH_SERVICE_ACCOUNTS: &str = "--enable-admission-plugins=ServiceAccount";
/// Without a controller-manager, no namespace has a default service account.
const WITHOUT_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

fn until_ready(ApiServer { server, process }: &mut ApiServer) -> Result<()> {
    process.wait_until("the API server is ready", || {
        answers(server, "/readyz")?;
        answers(server, "/api/v1/namespaces/default")
    })
}

/// Checks that an API server answers a request of the administrator.
fn answers(server: &Server, path: &str) -> Result<()> {
    let request = async {
        let request = Request::get(path).body(Vec::new())?;
        admin(server).await?.request_text(request).await?;
        anyhow::Ok(())
    };
    // The caller may be in a runtime, which must not block.
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.context("making a runtime")?.block_on(request)
        });
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

pub(crate) async fn admin(server: &Server) -> Result<Client> {
    client(server, &Identity::Admin.token(&server.secret)).await
}

async fn client(server: &Server, token: &str) -> Result<Client> {
    let kubeconfig: Kubeconfig = serde_json::from_value(server.kubeconfig("client", token))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Client::try_from(config).context("making a client")
}

fn audit_log(folder: &RunFolder, index: usize) -> PathBuf {
    folder.logs().join(format!("audit-{index}.log"))
}

/// Excludes requests for pods, which are the load of tests, and those of the API servers
/// themselves.
const AUDIT_POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "None", "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "Metadata"}
    ]
}"#;
