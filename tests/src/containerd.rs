//! containerd with its own root, state and socket.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};

use crate::bridge::Bridge;
use crate::process::Process;
use crate::programs::Programs;
use crate::run_folder::RunFolder;
use crate::tool::run;

/// A running containerd.
#[derive(Debug)]
pub(crate) struct Containerd {
    process: Process,
    socket: PathBuf,
}

impl Containerd {
    /// Starts containerd and waits until it answers.
    pub(crate) fn start(
        folder: &RunFolder,
        programs: &Programs,
        bridge: &Bridge,
        pause_image: &str,
    ) -> Result<Self> {
        let socket = socket(&folder.node());
        let addresses = folder.folder(&format!("cni/{ADDRESSES}"))?;
        let network = bridge.network_configuration(&addresses);
        let network = folder.write("cni/network.conflist", network.to_string())?;
        copy_plugins(&plugins(&folder.node()))?;
        // An image that was not imported is an immediate error instead of a request to a registry.
        folder.write("containerd/registries/_default/hosts.toml", NOWHERE)?;
        let config = configuration(folder, &socket, &network, pause_image);
        let config = folder.write("containerd/config.toml", config)?;
        let process = Process::start(
            folder,
            "containerd",
            &programs.system("containerd")?,
            [Path::new("--config"), &config],
        )?;
        let mut containerd = Self { process, socket };
        containerd.wait_until_it_answers()?;
        Ok(containerd)
    }

    /// Starts the killed containerd, and waits until it answers.
    pub(crate) fn start_again(&mut self, folder: &RunFolder) -> Result<()> {
        self.process.start_again(folder)?;
        self.wait_until_it_answers()
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let Self { process, socket } = self;
        process.wait_until("containerd answers", || ctr(socket, &["version".as_ref()]))?;
        Ok(())
    }

    pub(crate) fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Imports the image of an archive.
    pub(crate) fn import(&self, archive: &Path) -> Result<()> {
        ctr(&self.socket, &["images".as_ref(), "import".as_ref(), archive]).map(drop)
    }

    pub(crate) fn stop(&mut self) -> Result<()> {
        self.process.stop()
    }
}

/// Returns the socket that distinguishes our containerd and its shims from others.
pub(crate) fn socket(node: &Path) -> PathBuf {
    node.join("containerd/containerd.sock")
}

/// Returns the folder with the state of running containers.
pub(crate) fn state(node: &Path) -> PathBuf {
    node.join("containerd/state")
}

/// Returns the folder with the network configurations.
pub(crate) fn networks(node: &Path) -> PathBuf {
    node.join("cni")
}

/// Returns the folder with the node's own copies of the CNI plugins: tests install others there.
pub(crate) fn plugins(node: &Path) -> PathBuf {
    node.join("cni-plugins")
}

/// Removes the state of all pods and their attachments to the network, which a node that starts
/// does not have.
pub(crate) fn forget_pods(node: &Path) -> Result<()> {
    let addresses = networks(node).join(ADDRESSES);
    for folder in [&state(node), &addresses, Path::new(ATTACHMENTS)] {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", folder.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn copy_plugins(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    for plugin in fs::read_dir(SYSTEM_PLUGINS).context("reading the CNI plugins")? {
        let plugin = plugin.context("reading the CNI plugins")?.path();
        let copy = folder.join(plugin.file_name().unwrap_or_default());
        fs::copy(&plugin, copy).with_context(|| format!("copying {}", plugin.display()))?;
    }
    Ok(())
}

fn ctr(socket: &Path, args: &[&Path]) -> Result<String> {
    let mut all = vec!["--address".as_ref(), socket, "--namespace".as_ref(), "k8s.io".as_ref()];
    all.extend(args);
    run("ctr", all)
}

fn configuration(folder: &RunFolder, socket: &Path, network: &Path, pause_image: &str) -> String {
    let root = folder.node().join("containerd/root");
    let state = state(&folder.node());
    let networks = network.parent().unwrap_or(network);
    // The settings after restrict_oom_score_adj let containerd run without CAP_SYS_RESOURCE and
    // AppArmor, and keep every mount below `state`.
    format!(
        r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause_image}"
restrict_oom_score_adj = true
disable_apparmor = true
netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{networks}"

[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{registries}"
"#,
        root = root.display(),
        state = state.display(),
        socket = socket.display(),
        networks = networks.display(),
        plugins = plugins(&folder.node()).display(),
        registries = folder.node().join("containerd/registries").display(),
    )
}

/// The network's addresses in use, beside its configuration.
const ADDRESSES: &str = "addresses";
/// The cache of libcni; a machine with these tests has no other node.
const ATTACHMENTS: &str = "/var/lib/cni/results";
/// CNI plugins of Debian's package.
const SYSTEM_PLUGINS: &str = "/usr/lib/cni";
const NOWHERE: &str = "server = \"http://127.0.0.1:9\"\n[host.\"http://127.0.0.1:9\"]\n";
