//! A complete Kubernetes cluster on this machine.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use packaging::Image;
use packaging::oci::ImageArchive;
use rustix::process::geteuid;

use crate::api_client::ApiClient;
use crate::bridge::Bridge;
use crate::containerd::{self, Containerd};
use crate::control_plane::ControlPlane;
use crate::dns::Dns;
use crate::etcd::Etcd;
use crate::identity::{Identity, NODE_NAME};
use crate::kube_proxy::KubeProxy;
use crate::kubectl::Kubectl;
use crate::kubelet::{self, Kubelet};
use crate::kubelet_access::KubeletAccess;
use crate::mesh_authority::MeshAuthority;
use crate::namespace::Namespace;
use crate::programs::Programs;
use crate::run_folder::RunFolder;
use crate::{images, remains, wait};

/// A running single-node cluster. There is one per test binary, and every test has a namespace of
/// its own in it.
///
/// The kernel kills the node's programs when the thread that started them ends, so start it from a
/// thread that outlives the tests.
#[derive(Debug)]
pub struct Cluster {
    node: Node,
    mesh_authority: Arc<MeshAuthority>,
    folder: RunFolder,
    stopped: bool,
}

impl Cluster {
    /// Removes the remains of a killed run, starts every program, imports the images, and waits
    /// until the node is Ready.
    pub fn start(programs: &Programs, images: &[Image]) -> Result<Self> {
        ensure!(geteuid().is_root(), "a node needs root, for containers and their network");
        let folder = RunFolder::claim()?;
        remains::clear(&folder).context("clearing what an earlier run left")?;
        folder.begin()?;
        let mesh_authority =
            Arc::new(MeshAuthority::create().context("creating the CA of the mesh")?);
        match Node::start(&folder, programs, images) {
            Ok(node) => Ok(Self { node, mesh_authority, folder, stopped: false }),
            Err(error) => {
                // The first error is the relevant one; the next run cleans up again.
                let _ = remains::clear(&folder);
                Err(error.context("starting the cluster"))
            }
        }
    }

    /// Returns kubectl as the cluster's administrator.
    pub fn kubectl(&self) -> &Kubectl {
        &self.node.kubectl
    }

    /// Returns what is at a path of the API, as the cluster's administrator.
    pub(crate) fn read(&self, path: &str) -> Result<String> {
        self.node.client.get(path)
    }

    /// Returns the machine's address on the bridge, where pods reach programs of the tests.
    pub fn address(&self) -> Ipv4Addr {
        self.node.control_plane.server().address
    }

    /// Returns the folder of the node's network configurations.
    pub fn network_configurations(&self) -> PathBuf {
        containerd::networks(&self.folder.node())
    }

    /// Returns the folder of the node's CNI plugins.
    pub fn network_plugins(&self) -> PathBuf {
        containerd::plugins(&self.folder.node())
    }

    /// Returns the folder in which the node keeps the network namespaces of its pods.
    pub fn network_namespaces(&self) -> PathBuf {
        containerd::state(&self.folder.node()).join("io.containerd.grpc.v1.cri/netns")
    }

    /// Returns the name of the node.
    pub fn node_name(&self) -> &'static str {
        NODE_NAME
    }

    /// Returns the folder of this run, for further programs on the node.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Returns the CA of the mesh. Its root is in the ConfigMap `istio-ca-root-cert` of each
    /// namespace.
    pub fn mesh_authority(&self) -> Arc<MeshAuthority> {
        Arc::clone(&self.mesh_authority)
    }

    /// Applies YAML documents, and returns the API server's warnings.
    pub fn apply(&self, documents: &str) -> Result<String> {
        let args = ["apply", "--filename", "-"];
        let answer = self.kubectl().run_with_input(args, documents)?;
        if !answer.succeeded {
            bail!("kubectl apply: {}", answer.stderr.trim());
        }
        Ok(answer.stderr)
    }

    /// Creates a namespace with labels (`key=value`), ready to run pods in.
    pub fn namespace(&self, name: &str, labels: &[&str]) -> Result<Namespace<'_>> {
        Namespace::create(self, name, labels)
    }

    /// Returns a namespace that another program created.
    pub fn existing_namespace(&self, name: &str) -> Namespace<'_> {
        Namespace::existing(self, name)
    }

    /// Waits until the installed injector is available and each entry of its webhook has a `caBundle`.
    pub fn wait_until_injector_serves(&self) -> Result<()> {
        self.existing_namespace("istio-system").wait_until_available("sidecar-injector")?;
        self.wait_until_published("istio-sidecar-injector", ENTRIES)
    }

    /// Waits until this number of a webhook configuration's entries have a `caBundle`.
    pub fn wait_until_published(&self, configuration: &str, entries: usize) -> Result<()> {
        let bundles = "--output=jsonpath={.webhooks[*].clientConfig.caBundle}";
        wait::until(&format!("every entry of {configuration} has its caBundle"), || {
            let get = ["get", "mutatingwebhookconfiguration", configuration, bundles];
            let count = self.kubectl().must(get)?.split_whitespace().count();
            if count == entries { Ok(()) } else { bail!("{count} of {entries} have one") }
        })
    }

    /// Kills the API server, does `work` without it, and starts it again.
    pub fn without_api_server(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let Node { control_plane, kubectl, .. } = &self.node;
        control_plane.kill_api_server()?;
        let worked = work();
        control_plane.start_api_server_again(&self.folder, kubectl)?;
        worked
    }

    /// Ends the container runtime, the kubelet and all pods at once, as a loss of power does, with
    /// what a node keeps in memory. Does `meanwhile` before it starts the runtime and the kubelet
    /// again. The control plane is that of another machine.
    pub fn reboot(&self, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut kubelet = lock(&self.node.kubelet);
        let mut containerd = lock(&self.node.containerd);
        kubelet.kill()?;
        containerd.kill()?;
        remains::end_pods(&self.folder)?;
        containerd::forget_pods(&self.folder.node())?;
        meanwhile()?;
        make_cgroups()?;
        containerd.start_again(&self.folder)?;
        kubelet.start_again(&self.folder)
    }

    /// Returns the folder of the manifests of static pods, which the kubelet starts by itself.
    pub fn static_pods(&self) -> PathBuf {
        kubelet::static_pods(&self.folder.node())
    }

    /// Kills etcd, does `work` without it, and starts it again.
    pub fn without_etcd(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut etcd = lock(&self.node.etcd);
        etcd.kill()?;
        let worked = work();
        etcd.start_again(&self.folder)?;
        let kubectl = &self.node.kubectl;
        wait::until("the API server has its store again", || {
            kubectl.must(["get", "--raw", "/readyz"])
        })?;
        worked
    }

    /// Deletes the pods, stops every program, and restores the machine's state.
    pub fn stop(mut self) -> Result<()> {
        self.stop_once()
    }

    fn stop_once(&mut self) -> Result<()> {
        self.stopped = true;
        let stopped = self.node.stop();
        remains::clear(&self.folder).context("clearing what the node left")?;
        stopped
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.stopped {
            // During a panic, the panic is the relevant error.
            let _ = self.stop_once();
        }
    }
}

/// The programs in the order in which they stop.
#[derive(Debug)]
struct Node {
    kubectl: Kubectl,
    client: ApiClient,
    kubelet: Mutex<Kubelet>,
    kube_proxy: KubeProxy,
    dns: Dns,
    control_plane: ControlPlane,
    etcd: Mutex<Etcd>,
    containerd: Mutex<Containerd>,
}

impl Node {
    fn start(folder: &RunFolder, programs: &Programs, images: &[Image]) -> Result<Self> {
        let bridge = Bridge::create(folder)?;
        let containerd = Containerd::start(folder, programs, &bridge, images::PAUSE)?;
        let pause = images::pause(programs)?;
        for image in images.iter().chain([&pause]) {
            import(folder, &containerd, image)?;
        }
        let etcd = Etcd::start(folder, &programs.system("etcd")?)?;
        let access = KubeletAccess::create(folder)?;
        let control_plane =
            ControlPlane::start(folder, programs, &etcd, bridge.address(), &access)?;
        let server = control_plane.server();
        let kubectl = Kubectl::new(programs, Identity::Admin.kubeconfig(folder, server)?)?;
        let client = ApiClient::new(server)?;
        let dns = Dns::start(folder, programs, server)?;
        make_cgroups()?;
        let kubelet = Kubelet::start(folder, programs, &containerd, server, &access)?;
        // It starts after the kubelet, because it waits long for a node that does not exist yet.
        let kube_proxy = KubeProxy::start(folder, programs, &bridge, server)?;
        wait::until("the node is Ready", || {
            let condition = format!("--for=condition=Ready=true node/{NODE_NAME} --timeout=0");
            let mut args = vec!["wait"];
            args.extend(condition.split(' '));
            kubectl.must(args)
        })?;
        wait::until("pods can run as the default ServiceAccount", || {
            kubectl.must(["get", "serviceaccount", "default", "--namespace=default"])
        })?;
        let (kubelet, containerd) = (Mutex::new(kubelet), Mutex::new(containerd));
        let etcd = Mutex::new(etcd);
        Ok(Self { kubectl, client, kubelet, kube_proxy, dns, control_plane, etcd, containerd })
    }

    /// Stops the node. Containers outlive a kubelet that stops before its pods are gone.
    fn stop(&mut self) -> Result<()> {
        self.control_plane.stop_controllers()?;
        let released = self.release_pods();
        let deleted = self.kubectl.must([
            "delete",
            "pods",
            "--all",
            "--all-namespaces",
            "--grace-period=1",
            "--timeout=180s",
        ]);
        lock(&self.kubelet).stop()?;
        self.kube_proxy.stop()?;
        self.dns.stop()?;
        // Their data ends with the node, and a graceful end takes seconds.
        self.control_plane.kill_api_server()?;
        lock(&self.etcd).kill()?;
        lock(&self.containerd).stop()?;
        released?;
        deleted.map(drop)
    }

    /// Removes the finalizers that a stopped controller would have to remove, such as that of Jobs.
    fn release_pods(&self) -> Result<()> {
        let pods = "--output=jsonpath={range .items[?(@.metadata.finalizers)]}\
            {.metadata.namespace} {.metadata.name}{\"\\n\"}{end}";
        let pods = self.kubectl.must(["get", "pods", "--all-namespaces", pods])?;
        for (namespace, pod) in pods.lines().filter_map(|line| line.split_once(' ')) {
            let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
            let namespace = format!("--namespace={namespace}");
            // The pod may be gone meanwhile.
            self.kubectl.run(["patch", "pod", pod, &namespace, "--type=merge", patch])?;
        }
        Ok(())
    }
}

/// A panic of another test does not stop the programs of the node.
fn lock<T>(program: &Mutex<T>) -> MutexGuard<'_, T> {
    program.lock().unwrap_or_else(PoisonError::into_inner)
}

fn import(folder: &RunFolder, containerd: &Containerd, image: &Image) -> Result<()> {
    let archive = folder.node().join("image.tar");
    ImageArchive::write_plain(image, &archive)?;
    containerd.import(&archive).with_context(|| format!("importing {}", image.name()))?;
    fs::remove_file(&archive).with_context(|| format!("removing {}", archive.display()))
}

fn make_cgroups() -> Result<()> {
    for top in remains::cgroup_tops()? {
        fs::create_dir_all(&top).with_context(|| format!("creating {}", top.display()))?;
        // Pods get the processor before other tests and builds: they request less than they need.
        for (file, share) in [("cpu.shares", "10240"), ("cpu.weight", "1000")] {
            if top.join(file).exists() {
                fs::write(top.join(file), share).with_context(|| format!("writing {file}"))?;
            }
        }
    }
    Ok(())
}

/// Number of Istio's entries for the default revision.
const ENTRIES: usize = 4;
