//! Capture of a pod: the settings of its init container, read by `istio-init`'s own parser.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::anyhow;
use injector::kubernetes::pod::{INIT_CONTAINERS, VALIDATION, find_proxy};
use injector::settings::annotations::key;
use istio_init::args::command::Request;
use istio_init::args::{Args, Environment};
use istio_init::config::{Config, PodEnvironment};
use istio_init::plan::{Plan, plan};
use serde_json::Value;

use super::cni;

/// Capture of a pod, with the settings that it comes from.
#[derive(Debug)]
pub(super) struct Capture {
    /// Origin of the settings.
    pub(super) source: CaptureSource,
    pub(super) config: Config,
    pub(super) plan: Plan,
    /// The pod's addresses, or a typical one; never empty.
    pub(super) addresses: Vec<IpAddr>,
    /// The name server of the pod, or a typical one.
    pub(super) name_server: IpAddr,
    /// Flags and variables, as `istio-init` gets them.
    pub(super) command: CaptureCommand,
    /// Assumptions about the pod, and warnings of `istio-init` about the settings.
    pub(super) notes: Vec<String>,
}

/// Origin of a pod's capture.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum CaptureSource {
    /// The pod's init container of this name.
    InitContainer(String),
    /// A CNI plugin, by the capture request of the pod.
    CaptureRequest,
    /// A CNI plugin, by Istio's annotations of the pod.
    CniPlugin,
}

/// Flags and variables of `istio-init`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct CaptureCommand {
    pub(super) args: Vec<String>,
    pub(super) environment: Environment,
}

impl Capture {
    /// Returns the capture of a pod; the reason if it has none.
    pub(super) fn of_pod(pod: &Value, name_server: Option<IpAddr>) -> Result<Self, String> {
        if pod["spec"]["hostNetwork"] == true {
            return Err("the pod shares the network namespace of its node".to_owned());
        }
        let (source, command) = match init_container(pod) {
            Some((name, command)) if name == VALIDATION => (CaptureSource::CaptureRequest, command),
            Some((name, command)) => (CaptureSource::InitContainer(name), command),
            None => (CaptureSource::CniPlugin, cni::command(pod)?),
        };
        Self::new(pod, source, command, name_server)
            .map_err(|error| format!("its settings are invalid: {error:#}"))
    }

    fn new(
        pod: &Value,
        source: CaptureSource,
        command: CaptureCommand,
        name_server: Option<IpAddr>,
    ) -> anyhow::Result<Self> {
        let mut notes = Vec::new();
        if source == CaptureSource::CniPlugin {
            notes.push("a CNI plugin makes the rules; its defaults are assumed".to_owned());
        }
        let mut addresses = addresses(pod);
        if addresses.is_empty() {
            notes.push(format!("the pod has no address yet: {TYPICAL_ADDRESS} is assumed"));
            addresses.push(TYPICAL_ADDRESS);
        }
        let own = pod["spec"]["dnsConfig"]["nameservers"][0].as_str();
        let own = own.and_then(|server| server.parse().ok());
        let server = own.or(name_server).unwrap_or(TYPICAL_NAME_SERVER);
        let args = command.args()?;
        let environment = PodEnvironment {
            addresses: addresses.clone(),
            resolv_conf: Ok(format!("nameserver {server}\n")),
            ..PodEnvironment::default()
        };
        let (config, warnings) = Config::read(&args, &environment)?;
        if config.dns.is_some() && own.or(name_server).is_none() {
            notes.push(format!("the name server is not known: {server} is assumed"));
        }
        notes.extend(warnings);
        let plan = plan(&config);
        Ok(Self { source, config, plan, addresses, name_server: server, command, notes })
    }
}

impl CaptureCommand {
    /// Parses flags and variables as `istio-init` does.
    fn args(&self) -> anyhow::Result<Args> {
        let words = ["istio-init"].into_iter().chain(self.args.iter().map(String::as_str));
        let request = Request::parse(words.map(OsString::from), &self.environment);
        request.map(|request| request.args).map_err(|error| {
            let text = error.to_string();
            anyhow!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: "))
        })
    }
}

/// Returns the name and the command of the init container that programs or checks the capture.
fn init_container(pod: &Value) -> Option<(String, CaptureCommand)> {
    let containers = pod["spec"][INIT_CONTAINERS].as_array()?;
    let container = containers.iter().find(|container| {
        let is_named = matches!(container["name"].as_str(), Some("istio-init" | VALIDATION));
        is_named || container["args"][0] == "istio-iptables"
    })?;
    let texts = container["args"].as_array().into_iter().flatten();
    let args = texts.filter_map(Value::as_str).map(str::to_owned).collect();
    let variables = container["env"].as_array().into_iter().flatten();
    let environment = variables.filter_map(|variable| {
        Some((variable["name"].as_str()?.to_owned(), variable["value"].as_str()?.to_owned()))
    });
    let name = container["name"].as_str()?;
    // This container only tries the rules of a plugin, which reads the pod's annotations. The capture
    // request has the arguments of this container.
    let is_requested = pod["metadata"]["annotations"].get(key::CAPTURE).is_some();
    if name == VALIDATION && !is_requested {
        return None;
    }
    Some((name.to_owned(), CaptureCommand { args, environment: environment.collect() }))
}

fn addresses(pod: &Value) -> Vec<IpAddr> {
    let status = &pod["status"];
    let all = status["podIPs"].as_array().into_iter().flatten().map(|address| &address["ip"]);
    let all = all.chain([&status["podIP"]]).filter_map(|address| address.as_str()?.parse().ok());
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in all {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Returns the proxy's container.
pub(super) fn proxy(pod: &Value) -> Option<&Value> {
    let (list, index) = find_proxy(pod)?;
    Some(&pod["spec"][list][index])
}

/// An address of a documentation network.
const TYPICAL_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The address that kubeadm gives to the cluster's DNS.
const TYPICAL_NAME_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10));
