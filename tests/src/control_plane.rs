//! API server, controller-manager and scheduler.

use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};

use crate::api_server::{ApiServer, Parts, ServiceAccountKeys};
use crate::etcd::Etcd;
use crate::identity::{Identity, Server, new_secret};
use crate::kubectl::Kubectl;
use crate::kubelet_access::KubeletAccess;
use crate::process::Process;
use crate::programs::Programs;
use crate::run_folder::RunFolder;

/// The three started programs; the API server is ready.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    server: Server,
    api_server: Mutex<Process>,
    controller_manager: Process,
    scheduler: Process,
}

impl ControlPlane {
    /// Starts the control plane. The API server listens on `address`, which pods can reach.
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
        let api_server = Mutex::new(api_server);
        Ok(Self { server, api_server, controller_manager, scheduler })
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Stops the programs that would create new pods.
    pub(crate) fn stop_controllers(&mut self) -> Result<()> {
        self.scheduler.stop()?;
        self.controller_manager.stop()
    }

    pub(crate) fn kill_api_server(&self) -> Result<()> {
        self.api_server().kill()
    }

    /// Starts the killed API server, and waits until it is ready.
    pub(crate) fn start_api_server_again(
        &self,
        folder: &RunFolder,
        kubectl: &Kubectl,
    ) -> Result<()> {
        let mut api_server = self.api_server();
        api_server.start_again(folder)?;
        api_server.wait_until("the API server is ready again", || {
            kubectl.must(["get", "--raw", "/readyz"])
        })?;
        Ok(())
    }

    fn api_server(&self) -> MutexGuard<'_, Process> {
        self.api_server.lock().unwrap_or_else(PoisonError::into_inner)
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
    let program = programs.kubernetes("kube-apiserver")?;
    let secret = new_secret()?;
    let parts = Parts { folder, program: &program, etcd, keys, secret: &secret };
    let flags = [
        format!("--advertise-address={address}"),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        format!("--kubelet-client-certificate={}", access.certificate.display()),
        format!("--kubelet-client-key={}", access.key.display()),
        // Otherwise `kubectl logs` tries to resolve the node's name.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
    ];
    let ApiServer { server, mut process } =
        ApiServer::start(&parts, "kube-apiserver", address, flags)?;
    let admin = Identity::Admin.kubeconfig(folder, &server)?;
    let kubectl = Kubectl::new(programs, admin)?;
    process.wait_until("the API server is ready", || {
        let answer = kubectl.run(["get", "--raw", "/readyz"])?;
        if !answer.succeeded {
            bail!("{}", answer.stderr.trim());
        }
        // Services need it, and a controller inside the API server creates it.
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
