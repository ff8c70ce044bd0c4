//! Fixture of one test: a service account of its own, and objects created by the administrator.

use std::fs;

use anyhow::{Context, Result};
use e2e::api_servers::ApiServers;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::client::{Client as Caller, patched};
use crate::program::Program;

pub(crate) struct Fixture<'a> {
    server: &'a ApiServers,
    admin: Client,
    runtime: Runtime,
    /// The test's own namespace, with its service account.
    pub(crate) namespace: String,
}

impl<'a> Fixture<'a> {
    /// Creates the namespace, and in it a service account without any permissions.
    pub(crate) fn set(server: &'a ApiServers, namespace: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let admin = runtime.block_on(server.admin(0))?;
        let fixture = Self { server, admin, runtime, namespace: namespace.to_owned() };
        fixture.apply(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        }));
        fixture.apply(&json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "injector", "namespace": namespace},
        }));
        Ok(fixture)
    }

    /// Allows the account these verbs on a cluster-wide resource.
    pub(crate) fn allow(&self, group: &str, resource: &str, verbs: &[&str]) {
        let name = format!("{}-{resource}", self.namespace);
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{"apiGroups": [group], "resources": [resource], "verbs": verbs}],
        }));
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [
                {"kind": "ServiceAccount", "name": "injector", "namespace": self.namespace},
            ],
        }));
    }

    /// Creates an object, or sets these fields of it.
    pub(crate) fn apply(&self, object: &Value) {
        self.try_apply(object).unwrap();
    }

    /// Applies an object as [`Self::apply`]. Returns an error if its resource is not served yet.
    pub(crate) fn try_apply(&self, object: &Value) -> kube::Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap();
        let apply = PatchParams::apply("stories").force();
        let api = self.api(object);
        self.runtime.block_on(api.patch(name, &apply, &Patch::Apply(object))).map(drop)
    }

    /// Sets the status of an object.
    pub(crate) fn apply_status(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let api = self.api(object);
        let merge = Patch::Merge(object);
        self.runtime.block_on(api.patch_status(name, &PatchParams::default(), &merge)).unwrap();
    }

    pub(crate) fn delete(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let api = self.api(object);
        self.runtime.block_on(api.delete(name, &DeleteParams::default())).unwrap();
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().unwrap();
        let (group, version) =
            text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")));
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.admin.clone(), namespace, &resource),
            None => Api::all_with(self.admin.clone(), &resource),
        }
    }

    /// Starts the program under the test's account, with a configuration from files.
    pub(crate) fn start(&self, flags: &[&str]) -> Program {
        let directory = TempDir::new().unwrap();
        let mesh = directory.path().join("mesh.yaml").to_str().unwrap().to_owned();
        fs::write(&mesh, format!("rootNamespace: {}\n", self.namespace)).unwrap();
        self.start_in(directory, &[&["--meshConfigFile", &mesh][..], flags].concat())
    }

    /// Starts the program as [`Fixture::start`], with the configuration from the `ConfigMaps` of
    /// the test's namespace.
    #[allow(dead_code, reason = "the stories of reports use it")]
    pub(crate) fn start_by_config_maps(&self, flags: &[&str]) -> Program {
        let namespace = ["--namespace", &self.namespace];
        self.start_in(TempDir::new().unwrap(), &[&namespace, flags].concat())
    }

    fn start_in(&self, directory: TempDir, flags: &[&str]) -> Program {
        let path = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
        let (kubeconfig, certificate, key) = (path("kubeconfig"), path("tls.crt"), path("tls.key"));
        crate::certificate::issue(directory.path());
        fs::write(&kubeconfig, self.kubeconfig().unwrap().to_string()).unwrap();
        let own =
            ["--kubeconfig", &kubeconfig, "--tlsCertFile", &certificate, "--tlsKeyFile", &key];
        Program::spawn(directory, &[&own, flags].concat())
    }

    /// Returns the administrator's kubeconfig with the account's token.
    pub(crate) fn kubeconfig(&self) -> Result<Value> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), &self.namespace);
        let request: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 3600}}))?;
        let parameters = PostParams::default();
        let token = accounts.create_token_request("injector", &parameters, &request);
        let status = self.runtime.block_on(token)?.status.context("no token was given")?;
        let mut config: Value = serde_json::from_slice(&fs::read(self.server.admin_kubeconfig())?)?;
        config["users"][0]["user"]["token"] = status.token.into();
        Ok(config)
    }

    /// Returns the number of requests of this kind that the API server denied to the account.
    pub(crate) fn denials(&self, verb: &str, resource: &str) -> usize {
        let account = format!("system:serviceaccount:{}:injector", self.namespace);
        let events = self.server.audit().unwrap();
        let denied = events.iter().filter(|event| {
            event["user"]["username"] == json!(account)
                && event["verb"] == json!(verb)
                && event["objectRef"]["resource"] == json!(resource)
                && event["responseStatus"]["code"] == json!(403)
        });
        denied.count()
    }

    /// Creates a further namespace.
    pub(crate) fn create_namespace(&self, name: &str, annotations: &Value) {
        let namespace = json!({"metadata": {"name": name, "annotations": annotations}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let api: Api<Namespace> = Api::all(self.admin.clone());
        self.runtime.block_on(api.create(&PostParams::default(), &namespace)).unwrap();
    }
}

/// Returns the injected pod of a review in a namespace, and the warnings.
pub(crate) fn injected(caller: &mut Caller, namespace: &str, pod: &Value) -> (Value, Value) {
    let request = json!({"uid": "u", "namespace": namespace, "object": pod});
    let mut response = caller.review("/inject", &request);
    assert_eq!(response["allowed"], true, "{response}");
    (patched(pod, &response), response["warnings"].take())
}

/// Returns a plain pod with labels, optionally assigned to a node.
pub(crate) fn pod(labels: &Value, node: Option<&str>) -> Value {
    let mut pod = json!({
        "metadata": {"name": "web", "labels": labels},
        "spec": {"containers": [{"name": "app", "image": "app"}]},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}
