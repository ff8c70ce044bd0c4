//! API server, controller-manager and scheduler.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::etcd::Etcd;
use crate::identity::{Identity, Server, new_secret};
use crate::kubectl::Kubectl;
use crate::kubelet_access::KubeletAccess;
use crate::port::free_port;
use crate::process::Process;
use crate::programs::Programs;
use crate::run_folder::RunFolder;

/// The three programs, started; the API server is ready.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    server: Server,
    api_server: Process,
    controller_manager: Process,
    scheduler: Process,
}

impl ControlPlane {
    /// Starts the control plane; the API server listens on `address`, where pods reach it.
    pub(crate) fn start(
        folder: &RunFolder,
        programs: &Programs,
        etcd: &Etcd,
        address: Ipv4Addr,
        access: &KubeletAccess,
    ) -> Result<Self> {
        let keys = ServiceAccountKeys::create(folder)?;
        let (server, api_server) =
            start_api_server(folder, programs, etcd, address, &keys, access)?;
        let controller_manager = start_controller_manager(folder, programs, &server, &keys)?;
        let scheduler = Process::start(
            folder,
            "kube-scheduler",
            &programs.kubernetes("kube-scheduler")?,
            [
                format!(
                    "--kubeconfig={}",
                    Identity::Scheduler.kubeconfig(folder, &server)?.display()
                ),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
        )?;
        Ok(Self { server, api_server, controller_manager, scheduler })
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Stops what would make new pods.
    pub(crate) fn stop_controllers(&mut self) -> Result<()> {
        self.scheduler.stop()?;
        self.controller_manager.stop()
    }

    pub(crate) fn stop_api_server(&mut self) -> Result<()> {
        self.api_server.stop()
    }
}

struct ServiceAccountKeys {
    private: PathBuf,
    public: PathBuf,
}

impl ServiceAccountKeys {
    fn create(folder: &RunFolder) -> Result<Self> {
        let pair = rcgen::KeyPair::generate().context("making the service account key")?;
        Ok(Self {
            private: folder.write("service-account.key", pair.serialize_pem())?,
            public: folder.write("service-account.pub", pair.public_key_pem())?,
        })
    }
}

fn start_api_server(
    folder: &RunFolder,
    programs: &Programs,
    etcd: &Etcd,
    address: Ipv4Addr,
    keys: &ServiceAccountKeys,
    access: &KubeletAccess,
) -> Result<(Server, Process)> {
    let certificates = folder.folder("api-server")?;
    let port = free_port()?;
    let secret = new_secret()?;
    let tokens = folder.write("tokens.csv", Identity::token_file(&secret))?;
    let mut process = Process::start(
        folder,
        "kube-apiserver",
        &programs.kubernetes("kube-apiserver")?,
        [
            format!("--etcd-servers={}", etcd.url()),
            format!("--secure-port={port}"),
            // It makes its own certificate, for this address and the Service's.
            format!("--bind-address={address}"),
            format!("--advertise-address={address}"),
            format!("--cert-dir={}", certificates.display()),
            format!("--service-account-key-file={}", keys.public.display()),
            format!("--service-account-signing-key-file={}", keys.private.display()),
            format!("--service-account-issuer={ISSUER}"),
            // istio-ca is the audience of the token that the proxy shows to its CA.
            format!("--api-audiences={ISSUER},istio-ca"),
            format!("--service-cluster-ip-range={SERVICE_RANGE}"),
            format!("--token-auth-file={}", tokens.display()),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            format!("--kubelet-client-certificate={}", access.certificate.display()),
            format!("--kubelet-client-key={}", access.key.display()),
            // Else `kubectl logs` tries to resolve the node's name.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
        ],
    )?;
    let server = Server { address, port, authority: certificates.join("apiserver.crt"), secret };
    let admin = Identity::Admin.kubeconfig(folder, &server)?;
    let kubectl = Kubectl::new(programs, admin)?;
    process.wait_until("the API server is ready", PATIENCE, || {
        let answer = kubectl.run(["get", "--raw", "/readyz"])?;
        if !answer.succeeded {
            bail!("{}", answer.stderr.trim());
        }
        // Services need it, and a controller inside the API server writes it.
        kubectl.must(["get", "service", "kubernetes", "--namespace=default"])
    })?;
    Ok((server, process))
}

fn start_controller_manager(
    folder: &RunFolder,
    programs: &Programs,
    server: &Server,
    keys: &ServiceAccountKeys,
) -> Result<Process> {
    let kubeconfig = Identity::ControllerManager.kubeconfig(folder, server)?;
    Process::start(
        folder,
        "kube-controller-manager",
        &programs.kubernetes("kube-controller-manager")?,
        [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--root-ca-file={}", server.authority.display()),
            format!("--service-account-private-key-file={}", keys.private.display()),
            "--use-service-account-credentials=true".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ],
    )
}

/// Where Services live; kube-proxy makes it reachable on this machine and from pods.
const SERVICE_RANGE: &str = "10.96.0.0/24";
const ISSUER: &str = "https://kubernetes.default.svc";
const PATIENCE: Duration = Duration::from_secs(90);
