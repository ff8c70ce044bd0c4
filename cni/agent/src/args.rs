//! Command line of the node agent. Flags and variables are Istio's where Istio has them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::absent_args::AbsentArgs;
use crate::install::conf_dir::is_loaded;
use crate::reconciler::RepairMode;
use crate::switch::Switch as _;
use cni::network_config::OnUnknown;
use kube_access::{LogFilter, names};

/// Install the CNI plugin istio-cni on a node, keep it installed, and repair pods that started without it
#[derive(Clone, Debug, Parser)]
#[command(name = "install-cni", version = program_version::text(), args_override_self = true, after_help = EXIT_CODES)]
pub struct Arguments {
    /// Command; without one, the agent runs until it is terminated.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Folders and files of the node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Content of the configuration.
    #[command(flatten)]
    pub configuration: ConfigurationArgs,
    /// Repair of pods.
    #[command(flatten)]
    pub repair: RepairArgs,
    /// Flags of Istio's without effect.
    #[command(flatten)]
    pub absent: AbsentArgs,
    /// Filter of the log on stderr: LEVEL, or TARGET=LEVEL of tracing, or SCOPE:LEVEL of Istio
    #[arg(
        long,
        env = "LOG",
        value_name = "FILTER",
        default_value = "info",
        global = true,
        help_heading = "Logging"
    )]
    pub log: LogFilter,
    /// Log as JSON
    #[arg(long = "log_as_json", switch = false, global = true, help_heading = "Logging")]
    pub log_as_json: bool,
}

impl Arguments {
    /// Parses a command line and the variables of its flags. As in Istio, a variable that is empty
    /// is not set.
    pub fn read(line: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::command().mut_args(|arg| {
            let variable = arg.get_env().map(|name| (name != EXCLUDED, std::env::var_os(name)));
            match variable {
                Some((true, Some(value))) if value.is_empty() => arg.env(Resettable::Reset),
                _ => arg,
            }
        });
        let mut matches = command.try_get_matches_from_mut(line)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }
}

/// A command of the program.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Remove the configuration from the node; the plugin stays until no pod needs it
    #[command(after_help = UNINSTALL_EXIT_CODES)]
    Uninstall {
        /// Remove the plugin too, unless pods need it to be deleted
        #[arg(long)]
        purge: bool,
        /// Then wait until the program is terminated, for a DaemonSet
        #[arg(long)]
        wait: bool,
    },
    /// Exit with 0 if plugin and configuration are installed; for a readiness probe
    #[command(after_help = READY_EXIT_CODES)]
    Ready {
        /// Exit with 0 if no file of this node has the plugin's entry
        #[arg(long)]
        uninstalled: bool,
    },
    /// Print the version and the commit
    Version,
}

/// Folders and files of the node.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// Folder of the runtime's network configurations, as mounted here
    #[arg(
        long,
        env = "MOUNTED_CNI_NET_DIR",
        value_name = "DIR",
        default_value = "/host/etc/cni/net.d",
        global = true
    )]
    pub mounted_cni_net_dir: PathBuf,
    /// Folder of the runtime's CNI plugins, as mounted here
    #[arg(
        long,
        env = "MOUNTED_CNI_BIN_DIR",
        value_name = "DIR",
        default_value = "/host/opt/cni/bin",
        global = true
    )]
    pub mounted_cni_bin_dir: PathBuf,
    /// Folder of libcni's cache, as mounted here
    #[arg(
        long,
        env = "MOUNTED_CNI_CACHE_DIR",
        value_name = "DIR",
        default_value = "/host/var/lib/cni/results",
        global = true
    )]
    pub mounted_cni_cache_dir: PathBuf,
    /// Folder of the socket for the plugin's questions, on the node and here
    #[arg(
        long,
        env = "CNI_AGENT_RUN_DIR",
        value_name = "DIR",
        default_value = "/var/run/istio-cni",
        value_parser = absolute,
        global = true
    )]
    pub cni_agent_run_dir: PathBuf,
    /// The plugin to install [default: istio-cni beside this program]
    #[arg(long, env = "CNI_PLUGIN", value_name = "FILE", global = true)]
    pub plugin: Option<PathBuf>,
    /// Name of this node; without it, no pod is repaired [default: none]
    #[arg(long, env = "KUBERNETES_NODE_NAME", value_name = "NODE")]
    pub node_name: Option<String>,
    /// Name of this node, as Istio's agent has it for repair
    #[arg(long, env = "REPAIR_NODE_NAME", value_name = "NODE", hide = true)]
    pub repair_node_name: Option<String>,
    /// Kubeconfig of the API server [default: the service account of this pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Remove the taint cni.istio.io/not-ready from the node, once the plugin is installed and the
    /// pods were looked at
    #[arg(long, env = "UNTAINT_NODE", switch = false)]
    pub untaint_node: bool,
    /// Port of the metrics; 0 for none, because the agent uses the node's network
    #[arg(long, env = "MONITORING_PORT", value_name = "PORT", default_value = "0")]
    pub monitoring_port: u16,
}

/// Content of the configuration.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigurationArgs {
    /// Place of the plugin's entry
    #[arg(long, env = "CONFIG_MODE", value_name = "MODE", default_value = "auto")]
    pub config_mode: ConfigMode,
    /// File of the configuration folder: the one to edit, or the one to write with mode standalone
    /// [default: the first one with mode edit, YYY-istio-cni.conf with mode standalone, else none]
    #[arg(long, env = "CNI_CONF_NAME", value_name = "FILE", value_parser = file_name)]
    pub cni_conf_name: Option<String>,
    /// Chain the plugin behind others; `false` is --config-mode standalone
    #[arg(long, env = "CHAINED_CNI_PLUGIN", switch = true)]
    pub chained_cni_plugin: bool,
    /// Write a file of our own; `true` is --config-mode own
    #[arg(long, env = "ISTIO_OWNED_CNI_CONFIG", switch = false)]
    pub istio_owned_cni_config: bool,
    /// File to write with mode own; its name has to sort before the others
    #[arg(
        long,
        env = "ISTIO_OWNED_CNI_CONFIG_FILENAME",
        value_name = "FILE",
        default_value = "00-istio-cni.conflist",
        value_parser = list_name
    )]
    pub istio_owned_cni_config_filename: String,
    /// Let the group of the file read a new configuration
    #[arg(long, env = "CNI_CONF_GROUP_READ", switch = false)]
    pub cni_conf_group_read: bool,
    /// Namespaces whose pods are never captured
    #[arg(
        long,
        env = EXCLUDED,
        value_name = "NAMESPACE,...",
        value_delimiter = ',',
        value_parser = |text: &str| names::label_or_nothing(text.trim()),
        default_value = "kube-system"
    )]
    pub exclude_namespaces: Vec<String>,
    /// Outcome for a pod if neither the runtime passes annotations nor this agent answers
    #[arg(long, env = "ON_UNKNOWN", value_name = "OUTCOME", default_value = "fail")]
    pub on_unknown: UnknownPod,
}

impl ConfigurationArgs {
    /// Returns the namespaces whose pods are never captured.
    pub fn excluded(&self) -> Vec<String> {
        self.exclude_namespaces.iter().filter(|name| !name.is_empty()).cloned().collect()
    }
}

/// Outcome for a pod that cannot be recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnknownPod {
    /// It does not start; the kubelet tries again
    Fail,
    /// It starts without capture
    Pass,
}

impl From<UnknownPod> for OnUnknown {
    fn from(outcome: UnknownPod) -> Self {
        match outcome {
            UnknownPod::Fail => Self::Fail,
            UnknownPod::Pass => Self::Pass,
        }
    }
}

/// Place of the plugin's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConfigMode {
    /// A drop-in beside the runtime's configuration if the runtime reads those, else a file of our own
    Auto,
    /// A drop-in in the folder of the network (containerd 2.1, CRI-O, Multus)
    #[value(name = "dropin")]
    DropIn,
    /// A file of our own that copies the runtime's configuration
    Own,
    /// The runtime's configuration itself
    Edit,
    /// A file of our own with the plugin alone, for Multus
    Standalone,
}

/// Repair of pods.
#[expect(clippy::struct_excessive_bools, reason = "the flags are Istio's")]
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Repair")]
pub struct RepairArgs {
    /// Look for pods that started without the plugin
    #[arg(long, env = "REPAIR_ENABLED", switch = true)]
    pub repair_enabled: bool,
    /// Program their rules
    #[arg(long, env = "REPAIR_REPAIR_PODS", switch = true)]
    pub repair_repair_pods: bool,
    /// Delete them; --repair-repair-pods goes first
    #[arg(long, env = "REPAIR_DELETE_PODS", switch = false)]
    pub repair_delete_pods: bool,
    /// Label them; the other two go first
    #[arg(long, env = "REPAIR_LABEL_PODS", switch = false)]
    pub repair_label_pods: bool,
    /// Key of the label
    #[arg(
        long,
        env = "REPAIR_BROKEN_POD_LABEL_KEY",
        value_name = "KEY",
        default_value = "cni.istio.io/uninitialized"
    )]
    pub repair_broken_pod_label_key: String,
    /// Value of the label
    #[arg(
        long,
        env = "REPAIR_BROKEN_POD_LABEL_VALUE",
        value_name = "VALUE",
        default_value = "true"
    )]
    pub repair_broken_pod_label_value: String,
}

impl RepairArgs {
    /// Returns the mode: the first one that is set, as in Istio.
    pub fn mode(&self) -> RepairMode {
        match () {
            () if !self.repair_enabled => RepairMode::Off,
            () if self.repair_repair_pods => RepairMode::Repair,
            () if self.repair_delete_pods => RepairMode::Delete,
            () if self.repair_label_pods => RepairMode::Label {
                key: self.repair_broken_pod_label_key.clone(),
                value: self.repair_broken_pod_label_value.clone(),
            },
            () => RepairMode::Off,
        }
    }
}

/// Variable whose empty value is one: it excludes no namespace.
const EXCLUDED: &str = "EXCLUDE_NAMESPACES";

/// Parses an absolute path: the plugin reads it from its configuration.
fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("expected an absolute path".to_owned()) }
}

/// Parses the name of a file in the configuration folder. An empty one is Istio's default.
fn file_name(text: &str) -> Result<String, String> {
    if is_loaded(text) || text.is_empty() {
        return Ok(text.to_owned());
    }
    Err("expected a file name that ends in .conf, .conflist or .json, without a folder".to_owned())
}

/// Parses the name of a configuration list in the configuration folder.
fn list_name(text: &str) -> Result<String, String> {
    if is_loaded(text) && text.ends_with(".conflist") {
        return Ok(text.to_owned());
    }
    Err("expected a file name that ends in .conflist, without a folder".to_owned())
}

const EXIT_CODES: &str = "Exit codes:\n  0  done; the agent: ended by SIGTERM or SIGINT\n  1  \
                          failed; ready: not installed\n  2  invalid usage";
const UNINSTALL_EXIT_CODES: &str = "Exit codes:\n  0  done; --wait: ended by SIGTERM or SIGINT\n  \
                                    1  failed\n  2  invalid usage";
const READY_EXIT_CODES: &str = "Exit codes:\n  0  installed; --uninstalled: no file has the entry\n  \
                                1  not so, or failed\n  2  invalid usage";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_mode_of_repair_applies() {
        let mode = |flags: &[&str]| {
            let arguments = ["install-cni"].iter().chain(flags);
            Arguments::try_parse_from(arguments).unwrap().repair.mode()
        };
        let label = RepairMode::Label {
            key: "cni.istio.io/uninitialized".to_owned(),
            value: "true".to_owned(),
        };
        let no_repair = "--repair-repair-pods=false";
        assert_eq!(mode(&[]), RepairMode::Repair);
        assert_eq!(mode(&["--repair-delete-pods"]), RepairMode::Repair);
        assert_eq!(
            mode(&[no_repair, "--repair-delete-pods", "--repair-label-pods"]),
            RepairMode::Delete
        );
        assert_eq!(mode(&[no_repair, "--repair-label-pods=true"]), label);
        assert_eq!(mode(&[no_repair]), RepairMode::Off);
        assert_eq!(mode(&["--repair-enabled=false"]), RepairMode::Off);
    }

    #[test]
    fn file_names_have_no_folder_and_a_suffix_that_runtimes_load() {
        for flag in ["--cni-conf-name", "--istio-owned-cni-config-filename"] {
            for name in ["../10-a.conflist", "a/b.conflist", "10-a.yaml"] {
                let parsed = Arguments::try_parse_from(["install-cni", flag, name]);
                let error = parsed.unwrap_err().to_string();
                assert!(error.contains(flag) && error.contains("without a folder"), "{error}");
            }
        }
    }

    #[test]
    fn excluded_namespaces_are_names() {
        let flag = |value: &str| format!("--exclude-namespaces={value}");
        let parse = |value: &str| Arguments::try_parse_from(["install-cni", &flag(value)]);
        let excluded = parse("kube-system, lab").unwrap().configuration.exclude_namespaces;
        assert_eq!(excluded, ["kube-system", "lab"]);
        for value in ["kube-*", "kube-system,Lab", "kube-system lab"] {
            let error = parse(value).unwrap_err().to_string();
            assert!(error.contains("--exclude-namespaces"), "{error}");
        }
    }
}
