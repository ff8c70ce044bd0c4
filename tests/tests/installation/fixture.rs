//! Fixture of all tests: an API server, the controller that empties deleted namespaces, programs.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use e2e::api_servers::ApiServers;
use e2e::kubectl::Kubectl;
use e2e::manifests::Composition;
use e2e::namespace_cleanup::Leftovers;
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::wait;
use serde_json::Value;
use tokio::runtime::Runtime;

pub(crate) struct Fixture {
    pub(crate) programs: Programs,
    pub(crate) servers: ApiServers,
    pub(crate) injector: PathBuf,
    pub(crate) runtime: Runtime,
    leftovers: Leftovers,
    _controllers: Process,
}

impl Fixture {
    pub(crate) fn start() -> Result<Self> {
        let programs = Programs::find()?;
        let injector = programs.own("sidecar-injector")?;
        let routing = ["--enable-aggregator-routing=true".to_owned()];
        let servers = ApiServers::start_each(&programs, &[&[], &routing])?;
        let controllers = Process::start(
            servers.folder(),
            "kube-controller-manager",
            &programs.kubernetes("kube-controller-manager")?,
            [
                format!("--kubeconfig={}", servers.admin_kubeconfig().display()),
                "--controllers=namespace-controller,garbage-collector-controller".to_owned(),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
        )?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("making a runtime")?;
        let kubectl = servers.kubectl();
        kubectl.must_with_input(["apply", "--filename", "-"], &others_kinds())?;
        for kind in OTHERS_KINDS {
            let (plural, group) = (kind.2, kind.0);
            let name = format!("crd/{plural}.{group}");
            kubectl.must(["wait", "--for=condition=Established", &name])?;
        }
        let leftovers =
            runtime.block_on(async { Leftovers::new(servers.admin(0).await?).await })?;
        Ok(Self { programs, servers, injector, runtime, leftovers, _controllers: controllers })
    }

    pub(crate) fn kubectl(&self) -> &Kubectl {
        self.servers.kubectl()
    }

    pub(crate) fn render(&self, composition: Composition) -> Result<String> {
        composition.render(&self.programs)
    }

    /// Creates the Namespace, which some compositions leave to the user.
    pub(crate) fn make_namespace(&self) -> Result<()> {
        self.kubectl().must_with_input(["apply", "--filename", "-"], NAMESPACE_ALONE).map(drop)
    }

    /// Deletes everything that an earlier test has left.
    pub(crate) fn clear(&self) -> Result<()> {
        let left = |kinds: &str| -> Result<Vec<String>> {
            let listed = self.kubectl().must(["get", kinds, "--output=name"])?;
            let is_ours = |name: &&str| {
                ["injector", "istio", "pilot-discovery"].iter().any(|part| name.contains(part))
            };
            Ok(listed.lines().filter(is_ours).map(str::to_owned).collect())
        };
        let cluster_wide = left(
            "mutatingwebhookconfigurations,validatingwebhookconfigurations,\
             validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,\
             clusterrolebindings",
        )?;
        if !cluster_wide.is_empty() {
            let delete = [vec!["delete".to_owned()], cluster_wide].concat();
            self.kubectl().must(delete)?;
        }
        for namespace in left("namespaces")? {
            let name = namespace.trim_start_matches("namespace/");
            self.runtime.block_on(self.leftovers.delete_namespace(name))?;
        }
        Ok(())
    }

    /// Returns every object of the API server except events and objects that it creates itself.
    pub(crate) fn objects(&self) -> Result<std::collections::BTreeSet<String>> {
        let kinds = self.kubectl().must(["api-resources", "--verbs=list", "--output=name"])?;
        let kinds: Vec<_> = kinds.lines().filter(|kind| !IGNORED.contains(kind)).collect();
        let listed = self.kubectl().must([
            "get",
            &kinds.join(","),
            "--all-namespaces",
            "--output=jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}",
        ])?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let text = self.kubectl().must([
            "get",
            kind,
            name,
            "--namespace=istio-system",
            "--output=json",
            "--show-managed-fields",
        ])?;
        serde_json::from_str(&text).with_context(|| format!("reading {kind} {name}"))
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
fn others_kinds() -> String {
    let definitions = OTHERS_KINDS.map(|(group, kind, plural)| {
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
        .to_string()
    });
    definitions.join("\n---\n")
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
/// The API server that routes to endpoints of Services; the other one connects to their cluster
/// addresses.
pub(crate) const AGGREGATING: usize = 1;
