//! Fixture of a page: an API server and controllers.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use e2e::api_servers::{ApiServers, WITH_SERVICE_ACCOUNTS};
use e2e::netns::Namespace;
use e2e::objects::Objects;
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::wait;
use kube::Client;
use tokio::runtime::Runtime;

pub(crate) struct Fixture {
    pub(crate) programs: Programs,
    pub(crate) servers: ApiServers,
    pub(crate) runtime: Runtime,
    /// Client of the administrator.
    pub(crate) admin: Client,
    /// The administrator's requests.
    pub(crate) objects: Objects,
    _controllers: Process,
    _network: Namespace,
}

impl Fixture {
    /// Starts it in a network namespace of its own, in which the calling thread stays.
    pub(crate) fn start() -> Result<Self> {
        let network = Namespace::create()?;
        network.ip(&format!("address add {SERVICES} dev lo"))?;
        network.enter()?;
        let programs = Programs::find()?;
        let servers = ApiServers::start_with(&programs, 1, &[WITH_SERVICE_ACCOUNTS.to_owned()])?;
        let controllers = servers.controller_manager(
            &programs,
            "deployment-controller,replicaset-controller,namespace-controller,\
             garbage-collector-controller,serviceaccount-controller",
            &[],
        )?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("making a runtime")?;
        let admin = runtime.block_on(servers.admin(0))?;
        let objects = runtime.block_on(Objects::discover(admin.clone()))?;
        Ok(Self {
            programs,
            servers,
            runtime,
            admin,
            objects,
            _controllers: controllers,
            _network: network,
        })
    }

    /// Returns a program of this repository, or kubectl.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        match name {
            "kubectl" => self.programs.asset(name),
            name => self.programs.own(name),
        }
    }

    /// Deletes everything that an earlier page has left.
    pub(crate) fn clear(&self) -> Result<()> {
        self.runtime.block_on(self.delete_all())?;
        wait::until("the definitions of kinds are gone", || {
            let left = self.runtime.block_on(self.objects.names(DEFINITIONS))?;
            ensure!(left.is_empty(), "{left:?}");
            anyhow::Ok(())
        })
    }

    async fn delete_all(&self) -> Result<()> {
        let objects = &self.objects;
        for kind in CLUSTER_WIDE {
            for name in objects.names(kind).await? {
                if !name.contains("system:") && !is_of_the_server(&name) {
                    objects.delete(kind, &name).await?;
                }
            }
        }
        for kind in IN_DEFAULT {
            objects.delete_all(kind, "default").await?;
        }
        let mut namespaces = objects.names("namespaces").await?;
        namespaces.retain(|name| name != "default" && !name.contains("kube-"));
        objects.delete_namespaces(&namespaces).await
    }
}

/// True for the roles that the API server makes.
fn is_of_the_server(name: &str) -> bool {
    ["admin", "cluster-admin", "edit", "view"].contains(&name)
}

/// The address range of Services.
const SERVICES: &str = "10.96.0.0/24";
const DEFINITIONS: &str = "customresourcedefinitions";
const CLUSTER_WIDE: [&str; 7] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "clusterroles",
    "clusterrolebindings",
    DEFINITIONS,
];
const IN_DEFAULT: [&str; 6] =
    ["deployments", "replicasets", "jobs", "pods", "services", "configmaps"];
/// The names of our programs.
pub(crate) const OWN: [&str; 6] = [
    "istio-init",
    "istioctl",
    "pilot-agent",
    "pilot-discovery",
    "sidecar-injector",
    "webhook-certs",
];
