//! Fixture of all pages: an API server, controllers, and a place for istio-init.

use std::path::PathBuf;

use anyhow::{Context, Result};
use e2e::api_servers::{ApiServers, WITH_SERVICE_ACCOUNTS};
use e2e::kubectl::Kubectl;
use e2e::namespace_cleanup::Leftovers;
use e2e::process::Process;
use e2e::programs::Programs;
use tokio::runtime::Runtime;

pub(crate) struct Fixture {
    pub(crate) programs: Programs,
    pub(crate) servers: ApiServers,
    runtime: Runtime,
    leftovers: Leftovers,
    _controllers: Process,
}

impl Fixture {
    pub(crate) fn start() -> Result<Self> {
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
        let leftovers =
            runtime.block_on(async { Leftovers::new(servers.admin(0).await?).await })?;
        Ok(Self { programs, servers, runtime, leftovers, _controllers: controllers })
    }

    pub(crate) fn kubectl(&self) -> &Kubectl {
        self.servers.kubectl()
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
        let listed = |kinds: &str, is_left: fn(&str) -> bool| -> Result<Vec<String>> {
            let listed = self.kubectl().must(["get", kinds, "--output=name"])?;
            Ok(listed.lines().filter(|name| is_left(name)).map(str::to_owned).collect())
        };
        let cluster_wide = listed(CLUSTER_WIDE, |name| !name.contains("system:"))?;
        let own: Vec<_> = cluster_wide.into_iter().filter(|name| !is_of_the_server(name)).collect();
        if !own.is_empty() {
            self.kubectl().must([vec!["delete".to_owned()], own].concat())?;
        }
        for namespace in listed("namespaces", |name| !name.contains("kube-"))? {
            let name = namespace.trim_start_matches("namespace/");
            if name == "default" {
                let all = ["delete", "--all", "deployments,pods,jobs,services,configmaps"];
                self.kubectl().must(all)?;
            } else {
                self.runtime.block_on(self.leftovers.delete_namespace(name))?;
            }
        }
        Ok(())
    }
}

/// True for the roles that the API server makes.
fn is_of_the_server(name: &str) -> bool {
    let roles = ["admin", "cluster-admin", "edit", "view"];
    roles.iter().any(|role| name.ends_with(&format!("/{role}")))
}

const CLUSTER_WIDE: &str = "mutatingwebhookconfigurations,validatingwebhookconfigurations,\
    validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,\
    clusterrolebindings,customresourcedefinitions";
/// The names of our programs.
pub(crate) const OWN: [&str; 6] = [
    "istio-init",
    "istioctl",
    "pilot-agent",
    "pilot-discovery",
    "sidecar-injector",
    "webhook-certs",
];
