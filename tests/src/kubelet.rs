//! The kubelet, which makes this machine the cluster's only node.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use crate::containerd::Containerd;
use crate::http;
use crate::identity::{Identity, NODE_NAME, Server};
use crate::kubelet_access::KubeletAccess;
use crate::port::free_port;
use crate::process::Process;
use crate::programs::Programs;
use crate::run_folder::RunFolder;
use crate::wait;

/// A running kubelet.
#[derive(Debug)]
pub(crate) struct Kubelet {
    process: Process,
    health: SocketAddr,
}

impl Kubelet {
    /// Starts the kubelet and waits until it is healthy (its node may not be Ready yet).
    pub(crate) fn start(
        folder: &RunFolder,
        programs: &Programs,
        containerd: &Containerd,
        server: &Server,
        access: &KubeletAccess,
    ) -> Result<Self> {
        let health_port = free_port()?;
        let config = configuration(folder, containerd, server.address, access, health_port)?;
        let config = folder.write("kubelet.json", config.to_string())?;
        let root = folder.folder("kubelet")?;
        let kubeconfig = Identity::Kubelet.kubeconfig(folder, server)?;
        let mut process = Process::start(
            folder,
            "kubelet",
            &programs.kubernetes("kubelet")?,
            [
                format!("--config={}", config.display()),
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--root-dir={}", root.display()),
                format!("--cert-dir={}", root.join("pki").display()),
                format!("--hostname-override={NODE_NAME}"),
                format!("--node-ip={}", server.address),
            ],
        )?;
        let health = ([127, 0, 0, 1], health_port).into();
        process
            .wait_until("the kubelet is healthy", || http::get(health, "/healthz")?.expect_ok())?;
        Ok(Self { process, health })
    }

    /// Starts the killed kubelet, again whenever it ends, as a node's init system does. It ends while
    /// the container runtime recovers its pods.
    pub(crate) fn start_again(&mut self, folder: &RunFolder) -> Result<()> {
        let health = self.health;
        wait::until("the kubelet is healthy again", || {
            if !self.process.runs() {
                self.process.start_again(folder)?;
            }
            http::get(health, "/healthz")?.expect_ok()
        })
        .map(drop)
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    pub(crate) fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}

/// Returns the folder of the manifests of static pods.
pub(crate) fn static_pods(node: &Path) -> PathBuf {
    node.join("static-pods")
}

fn configuration(
    folder: &RunFolder,
    containerd: &Containerd,
    address: Ipv4Addr,
    access: &KubeletAccess,
    health_port: u16,
) -> Result<serde_json::Value> {
    // Pods use only the cluster's DNS.
    let resolver = folder.write("resolv.conf", "")?;
    Ok(json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": free_port()?,
        "healthzPort": health_port,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": false },
            "x509": { "clientCAFile": access.authority },
        },
        "authorization": { "mode": "Webhook" },
        "containerRuntimeEndpoint": format!("unix://{}", containerd.socket().display()),
        // All processes of pods are in this cgroup, so a killed run can be cleaned up.
        "cgroupRoot": CGROUP,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": false,
        "clusterDNS": [address],
        "clusterDomain": "cluster.local",
        "resolvConf": resolver,
        "podLogsDir": folder.logs().join("pods"),
        "volumePluginDir": folder.node().join("kubelet-plugins"),
        // A full disk of the machine must not evict the node's pods.
        "evictionHard": {
            "imagefs.available": "0%",
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "syncFrequency": "5s",
        "staticPodPath": folder.folder("static-pods")?,
        "fileCheckFrequency": "1s",
    }))
}

/// The parent cgroup of all pods of the node.
pub(crate) const CGROUP: &str = "/outrigger-e2e";
