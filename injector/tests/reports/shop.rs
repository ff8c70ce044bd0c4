//! Fixture: a cluster with an injector that the API server calls, and namespaces for pods.

use documents::yaml;
use e2e::api_servers::ApiServers;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::program::Program;

pub(crate) struct Shop<'a> {
    pub(crate) server: &'a ApiServers,
    pub(crate) fixture: Fixture<'a>,
    hooks: String,
    pods: Vec<(String, String)>,
}

impl<'a> Shop<'a> {
    /// Creates a control plane in a namespace of its own, without an injector yet.
    pub(crate) fn open(server: &'a ApiServers, name: &str) -> Self {
        let fixture = Fixture::set(server, &format!("control-{name}")).unwrap();
        let shop = Self { server, fixture, hooks: format!("hooks-{name}"), pods: Vec::new() };
        shop.configure("{}");
        shop.fixture.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "istio", "namespace": shop.fixture.namespace},
            "data": {"mesh": "{}"},
        }));
        shop
    }

    /// Writes the `ConfigMaps` from which `istioctl` reads the injector's configuration.
    pub(crate) fn configure(&self, values: &str) {
        for name in ["istio-sidecar-injector", "istio-sidecar-injector-canary"] {
            self.fixture.apply(&json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": self.fixture.namespace},
                "data": {"config": "policy: enabled", "values": values},
            }));
        }
    }

    /// Registers a running injector at the API server with the webhook configuration of our
    /// manifests.
    pub(crate) fn hook(&self, program: &Program) {
        let hooks = yaml::parse(include_str!("../../../manifests/base/webhook.yaml")).unwrap();
        self.apply_hooks(program, &self.hooks, hooks);
    }

    /// Registers the revision `canary` as [`Self::hook`], beside the default one.
    pub(crate) fn hook_canary(&self, program: &Program) {
        let text = include_str!("../../../manifests/base/webhook.yaml");
        let mut hooks = yaml::parse(&text.replace("[default]", "[canary]")).unwrap();
        hooks["metadata"]["labels"]["istio.io/rev"] = "canary".into();
        let entries = hooks["webhooks"].as_array_mut().unwrap();
        entries.retain(|entry| entry["name"].as_str().unwrap().starts_with("rev."));
        self.apply_hooks(program, &self.canary_hooks(), hooks);
    }

    fn canary_hooks(&self) -> String {
        format!("{}-canary", self.hooks)
    }

    fn apply_hooks(&self, program: &Program, name: &str, mut hooks: Value) {
        hooks["metadata"]["name"] = name.into();
        let ca = std::fs::read(program.path("ca.pem")).unwrap();
        let client = json!({
            "url": format!("https://{}/inject", program.https),
            "caBundle": base64::Engine::encode(&base64::prelude::BASE64_STANDARD, ca),
        });
        for hook in hooks["webhooks"].as_array_mut().unwrap() {
            hook["clientConfig"] = client.clone();
        }
        self.fixture.apply(&hooks);
    }

    /// Returns the flag with the name of the injector's webhook configuration.
    pub(crate) fn hooks(&self) -> [&str; 2] {
        ["--webhook-configuration", &self.hooks]
    }

    pub(crate) fn namespace(&self, name: &str, labels: &Value) {
        self.fixture.apply(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels},
        }));
    }

    pub(crate) fn pod(&mut self, namespace: &str, name: &str, more: &Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                // No admission plugin sets an account here, and the proxy needs a projected token.
                "serviceAccountName": "default",
                "containers": [{"name": "app", "image": "app"}],
            },
        });
        injector::kubernetes::merge::merge(&mut pod, more.clone()).unwrap();
        self.kubectl(&["create", "-f", "-"], &pod.to_string());
        self.pods.push((namespace.to_owned(), name.to_owned()));
    }

    pub(crate) fn delete(&mut self, namespace: &str, name: &str) {
        self.pods.retain(|pod| *pod != (namespace.to_owned(), name.to_owned()));
        let now = ["--grace-period=0", "--force"];
        self.kubectl(&[&["delete", "pod", "-n", namespace, name][..], &now].concat(), "");
    }

    pub(crate) fn kubectl(&self, args: &[&str], input: &str) -> String {
        self.server.kubectl().must_with_input(args, input).unwrap()
    }

    pub(crate) fn get(&self, args: &[&str]) -> Value {
        let text = self.kubectl(&[&["get", "-o", "json"], args].concat(), "");
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Shop<'_> {
    fn drop(&mut self) {
        // The next test must not meet the configuration of a stopped injector.
        let kubectl = self.server.kubectl();
        for name in [&self.hooks, &self.canary_hooks()] {
            let _ =
                kubectl.run(["delete", "--ignore-not-found", "mutatingwebhookconfiguration", name]);
        }
        for (namespace, name) in &self.pods {
            let now = ["--grace-period=0", "--force"];
            let delete = ["delete", "pod", "-n", namespace.as_str(), name.as_str()];
            let _ = kubectl.run(delete.iter().chain(&now));
        }
    }
}

/// Returns the metadata of a pod of a Deployment.
pub(crate) fn of_deployment(name: &str) -> Value {
    json!({"metadata": {
        "generateName": format!("{name}-abc-"),
        "labels": {"app": name, "pod-template-hash": "abc"},
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{name}-abc"),
            "uid": "3f0e8b1c-0000-4000-8000-000000000001", "controller": true,
        }],
    }})
}
