//! Namespace of one test.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::{http, wait};

/// A namespace of the cluster, with the actions of a test.
#[derive(Debug)]
pub struct Namespace<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl<'a> Namespace<'a> {
    pub(crate) fn create(cluster: &'a Cluster, name: &str, labels: &[&str]) -> Result<Self> {
        let namespace = Self::existing(cluster, name);
        cluster.kubectl().must(["create", "namespace", name])?;
        for label in labels {
            cluster.kubectl().must(["label", "namespace", name, label])?;
        }
        // istiod writes it into every namespace; an injected pod does not start without it.
        let root = format!("--from-literal=root-cert.pem={}", cluster.mesh_authority().root());
        namespace.kubectl(&["create", "configmap", "istio-ca-root-cert", &root])?;
        wait::until("the default ServiceAccount exists", || {
            namespace.get("serviceaccount/default")
        })?;
        Ok(namespace)
    }

    pub(crate) fn existing(cluster: &'a Cluster, name: &str) -> Self {
        Self { cluster, name: name.to_owned() }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes the namespace with everything in it. A failed test keeps its namespace for the
    /// investigation.
    pub fn delete(self) -> Result<()> {
        self.cluster.kubectl().must(["delete", "namespace", &self.name, "--wait=false"]).map(drop)
    }

    /// Runs kubectl in this namespace; a failure is an error.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with_input(args, "")
    }

    /// Runs kubectl as [`Namespace::kubectl`], with a standard input.
    pub fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<String> {
        self.cluster.kubectl().must_with_input(self.here(args), input)
    }

    /// Applies YAML documents here, and returns the API server's warnings.
    pub fn apply(&self, documents: &str) -> Result<String> {
        let args = self.here(&["apply", "--filename", "-"]);
        let answer = self.cluster.kubectl().run_with_input(args, documents)?;
        if !answer.succeeded {
            bail!("kubectl apply in {}: {}", self.name, answer.stderr.trim());
        }
        Ok(answer.stderr)
    }

    /// Returns an object from the API server, such as `pod/client`.
    pub fn get(&self, object: &str) -> Result<Value> {
        let (kind, name) = object.split_once('/').context("an object is KIND/NAME")?;
        let api = match kind {
            "configmap" | "pod" | "secret" | "service" | "serviceaccount" => "api/v1",
            "deployment" | "daemonset" | "statefulset" => "apis/apps/v1",
            _ => bail!("{object}: its API is not known here"),
        };
        let text = self.cluster.read(&format!("/{api}/namespaces/{}/{kind}s/{name}", self.name))?;
        serde_json::from_str(&text).with_context(|| format!("reading {object}"))
    }

    /// Waits until all replicas of a Deployment are available and have its newest pod template.
    pub fn wait_until_available(&self, deployment: &str) -> Result<()> {
        self.wait_until_rolled_out(&format!("deployment/{deployment}"))
    }

    /// Waits as [`Namespace::wait_until_available`] for an object such as `daemonset/agent`.
    pub fn wait_until_rolled_out(&self, object: &str) -> Result<()> {
        let timeout = kubectl_timeout();
        self.explained(self.kubectl(&["rollout", "status", object, &timeout]))
    }

    /// Waits until a Service answers HTTP on a port from the machine, and returns its address. A
    /// pod can be Ready before its Service routes to it.
    pub fn wait_until_service_answers(&self, service: &str, port: u16) -> Result<IpAddr> {
        let found = self.get(&format!("service/{service}"))?;
        let address = found["spec"]["clusterIP"].as_str().context("the Service has no address")?;
        let address = address.parse().with_context(|| format!("reading {address}"))?;
        wait::until(&format!("Service {service} answers"), || {
            http::get((address, port).into(), "/")?.expect_ok()
        })?;
        Ok(address)
    }

    /// Waits for a condition in kubectl's syntax, such as `condition=Ready` of `pod/client`.
    ///
    /// An error includes `kubectl describe` of the pods here.
    pub fn wait_for(&self, condition: &str, object: &str) -> Result<()> {
        let condition = format!("--for={condition}");
        let timeout = kubectl_timeout();
        self.explained(self.kubectl(&["wait", &condition, object, &timeout]))
    }

    fn explained(&self, waited: Result<String>) -> Result<()> {
        let Err(error) = waited else {
            return Ok(());
        };
        let pods = self.kubectl(&["describe", "pods"]).unwrap_or_default();
        let events = self.kubectl(&["get", "events"]).unwrap_or_default();
        bail!("{error:#}\n{pods}\n{events}")
    }

    /// Returns the pods with a label (`key=value`) that are not being deleted.
    pub fn pods(&self, label: &str) -> Result<Vec<Value>> {
        let pods = format!("/api/v1/namespaces/{}/pods?labelSelector={label}", self.name);
        let list = self.cluster.read(&pods)?;
        let mut list: Value = serde_json::from_str(&list).context("reading a list of pods")?;
        let pods = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(pods.into_iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect())
    }

    /// Returns the only pod with a label.
    pub fn pod(&self, label: &str) -> Result<Value> {
        let mut pods = self.pods(label)?;
        match (pods.pop(), pods.len()) {
            (Some(pod), 0) => Ok(pod),
            (_, others) => bail!("expected one pod with {label}, found {}", others + 1),
        }
    }

    /// Returns the log of a container so far.
    pub fn logs(&self, pod: &str, container: &str) -> Result<String> {
        let pod = format!("/api/v1/namespaces/{}/pods/{pod}", self.name);
        self.cluster.read(&format!("{pod}/log?container={container}"))
    }

    /// Runs a command in a container and returns its standard output.
    pub fn exec(&self, pod: &str, container: &str, command: &[&str]) -> Result<String> {
        let mut args = vec!["exec", pod, "--container", container, "--"];
        args.extend(command);
        self.kubectl(&args)
    }

    fn here<'b>(&'b self, args: &[&'b str]) -> Vec<&'b str> {
        [&["--namespace", &self.name], args].concat()
    }
}

fn kubectl_timeout() -> String {
    format!("--timeout={}s", wait::TIMEOUT.as_secs())
}

/// Returns the address of a pod from its status.
pub fn address_of(pod: &Value) -> Result<IpAddr> {
    let address = pod["status"]["podIP"].as_str().context("the pod has no address yet")?;
    address.parse().with_context(|| format!("reading the pod's address {address}"))
}

/// Returns the name of an object.
pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
