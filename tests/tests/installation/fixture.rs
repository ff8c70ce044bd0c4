//! Fixture of a test: an API server, the controller that empties deleted namespaces, programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use e2e::api_servers::ApiServers;
use e2e::kubectl::Kubectl;
use e2e::manifests::Composition;
use e2e::netns::Namespace;
use e2e::objects::Objects;
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::wait;
use kube::Client;
use serde_json::Value;
use tokio::runtime::Runtime;

pub(crate) struct Fixture {
    pub(crate) programs: Programs,
    pub(crate) servers: ApiServers,
    pub(crate) injector: PathBuf,
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
        network.ip(&format!("address add {SERVICES} dev lo\naddress add {PODS} dev lo"))?;
        network.enter()?;
        let programs = Programs::find()?;
        let injector = programs.own("sidecar-injector")?;
        let servers = ApiServers::start(&programs, 1)?;
        let controllers = servers.controller_manager(
            &programs,
            "namespace-controller,garbage-collector-controller",
            &[],
        )?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("making a runtime")?;
        let admin = runtime.block_on(servers.admin(0))?;
        let discover = || Objects::discover(admin.clone());
        let definitions = definitions_of_others();
        runtime.block_on(async { discover().await?.apply(&definitions).await })?;
        // Kinds are served a moment after their definition.
        let objects = wait::until("the kinds of others are served", || {
            let objects = runtime.block_on(discover())?;
            for (_, kind, _) in OTHERS_KINDS {
                runtime.block_on(objects.list(kind, ""))?;
            }
            anyhow::Ok(objects)
        })?;
        Ok(Self {
            programs,
            servers,
            injector,
            runtime,
            admin,
            objects,
            _controllers: controllers,
            _network: network,
        })
    }

    pub(crate) fn kubectl(&self) -> &Kubectl {
        self.servers.kubectl()
    }

    /// Renders a composition, once for all tests.
    pub(crate) fn render(&self, composition: Composition) -> Result<String> {
        static RENDERED: Mutex<BTreeMap<Composition, String>> = Mutex::new(BTreeMap::new());
        let all = || RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rendered) = all().get(&composition) {
            return Ok(rendered.clone());
        }
        let rendered = composition.render(&self.programs)?;
        all().insert(composition, rendered.clone());
        Ok(rendered)
    }

    /// Applies documents as the administrator.
    pub(crate) fn apply(&self, rendered: &str) -> Result<()> {
        self.runtime.block_on(self.objects.apply(&documents(rendered)?))
    }

    /// Creates the Namespace, which some compositions leave to the user.
    pub(crate) fn make_namespace(&self) -> Result<()> {
        self.apply(NAMESPACE_ALONE)
    }

    /// Deletes everything that an earlier test has left.
    pub(crate) fn clear(&self) -> Result<()> {
        let is_ours = |name: &String| {
            ["injector", "istio", "pilot-discovery"].iter().any(|part| name.contains(part))
        };
        self.runtime.block_on(async {
            for kind in CLUSTER_WIDE {
                for name in self.objects.names(kind).await?.iter().filter(|name| is_ours(name)) {
                    self.objects.delete(kind, name).await?;
                }
            }
            let mut namespaces = self.objects.names("namespaces").await?;
            namespaces.retain(is_ours);
            self.objects.delete_namespaces(&namespaces).await
        })
    }

    /// Returns every object of the API server except events and objects that it creates itself.
    pub(crate) fn objects(&self) -> Result<BTreeSet<String>> {
        Ok(self.runtime.block_on(self.objects.all(&IGNORED))?.into_iter().collect())
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Result<Value> {
        self.runtime.block_on(self.objects.get(kind, "istio-system", name))
    }

    /// Returns the `caBundle` of each entry of a webhook configuration.
    pub(crate) fn bundles(&self, configuration: &str) -> Result<Vec<String>> {
        let configuration = self.get("mutatingwebhookconfiguration", configuration)?;
        let entries = configuration["webhooks"].as_array().context("there are no entries")?;
        let bundle = |entry: &Value| {
            entry["clientConfig"]["caBundle"].as_str().unwrap_or_default().to_owned()
        };
        Ok(entries.iter().map(bundle).collect())
    }

    /// Waits until each entry has a `caBundle`, and returns them.
    pub(crate) fn until_published(&self, configuration: &str) -> Result<Vec<String>> {
        wait::until("each entry has a caBundle", || {
            let bundles = self.bundles(configuration)?;
            ensure!(bundles.iter().all(|bundle| !bundle.is_empty()), "{configuration}: not yet");
            anyhow::Ok(bundles)
        })
    }
}

/// Returns the documents of a rendering.
pub(crate) fn documents(rendered: &str) -> Result<Vec<Value>> {
    rendered.split("\n---\n").map(|text| Ok(documents::yaml::parse(text)?)).collect()
}

/// Returns the only document with a kind and name.
pub(crate) fn document(rendered: &str, kind: &str, name: &str) -> Result<Value> {
    let found = documents(rendered)?
        .into_iter()
        .find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    match found {
        Some(found) => Ok(found),
        None => bail!("there is no {kind} {name}"),
    }
}

/// Returns definitions of other projects' kinds that accept any field. The tests of manifests check
/// the fields against those projects' definitions.
fn definitions_of_others() -> Vec<Value> {
    let definition = |(group, kind, plural): (&str, &str, &str)| {
        let lower = kind.to_lowercase();
        serde_json::json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": lower},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                    }},
                }],
            },
        })
    };
    OTHERS_KINDS.map(definition).to_vec()
}

const OTHERS_KINDS: [(&str, &str, &str); 5] = [
    ("cert-manager.io", "Certificate", "certificates"),
    ("cert-manager.io", "Issuer", "issuers"),
    ("monitoring.coreos.com", "PodMonitor", "podmonitors"),
    ("monitoring.coreos.com", "PrometheusRule", "prometheusrules"),
    ("monitoring.coreos.com", "ServiceMonitor", "servicemonitors"),
];
const NAMESPACE_ALONE: &str =
    r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "istio-system"}}"#;
const IGNORED: [&str; 4] = [
    "events",
    "events.events.k8s.io",
    // Leases of API servers themselves.
    "leases.coordination.k8s.io",
    "componentstatuses",
];
const CLUSTER_WIDE: [&str; 6] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "clusterroles",
    "clusterrolebindings",
];
/// The address range of Services.
const SERVICES: &str = "10.96.0.0/24";
/// The address range of pods with a sidecar.
const PODS: &str = "10.244.0.0/24";
