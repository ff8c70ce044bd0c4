//! A running `pilot-discovery` at the address of its Service.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use e2e::api_servers::Audited;
use e2e::http;
use e2e::port::free_port;
use e2e::process::Process;
use pilot_agent::channel::ChannelOptions;
use serde_json::Value;

use crate::fixture::{Fixture, document};
use crate::injector::token;

use super::peer::channel;
use super::shared_ca::SharedCa;

pub(super) struct Program {
    pub(super) process: Process,
    /// `HOST:PORT` of the listener with TLS.
    pub(super) address: String,
    probe: SocketAddr,
}

impl Program {
    /// Starts the program as a rendered Deployment would, with its flags, its account's token and
    /// the mounted CA, and waits until it is ready.
    pub(super) fn of_manifests(fixture: &Fixture, rendered: &str, ca: &SharedCa) -> Result<Self> {
        let deployment = document(rendered, "Deployment", NAME)?;
        let pod = &deployment["spec"]["template"]["spec"];
        let flags = pod["containers"][0]["args"].as_array().context("there are no flags")?;
        let flags = flags.iter().filter_map(Value::as_str).map(str::to_owned);
        let account = pod["serviceAccountName"].as_str().context("there is no account")?;
        let kubeconfig = fixture.servers.kubeconfig(0, account, &token(fixture, account)?)?;
        let address = fixture.get("service", SERVICE)?["spec"]["clusterIP"].clone();
        let address = format!("{}:15012", address.as_str().context("there is no address")?);
        let probe = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let own = [
            format!("--secureGRPCAddr={address}"),
            format!("--httpAddr={probe}"),
            "--monitoringAddr=".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--caFolder={}", ca.folder().display()),
        ];
        let program = fixture.programs.own("pilot-discovery")?;
        let folder = fixture.servers.folder();
        let process = Process::start(folder, NAME, &program, flags.chain(own))?;
        let mut started = Self { process, address, probe };
        started.until_ready()?;
        Ok(started)
    }

    pub(super) fn until_ready(&mut self) -> Result<()> {
        let probe = self.probe;
        let ready = || http::get(probe, "/ready")?.expect_ok();
        self.process.wait_until("the control plane is ready", ready).map(drop)
    }

    /// Connection of a proxy.
    pub(super) fn channel(&self, ca: &SharedCa) -> ChannelOptions {
        channel(&self.address, SERVICE, ca)
    }
}

/// Checks by the audit log that our accounts wrote objects of the revision and nothing else since
/// then, and lacked no right.
pub(super) fn writes_concern_own_objects_alone(fixture: &Fixture, since: &Audited) -> Result<()> {
    let mut written = BTreeSet::new();
    for event in fixture.servers.audit_since(since)? {
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let verb = event["verb"].as_str().unwrap_or_default();
        let is_ours = ACCOUNTS.iter().any(|account| user.ends_with(&format!(":{account}")));
        if is_ours && !["get", "list", "watch"].contains(&verb) {
            let object = &event["objectRef"];
            let text = |key: &str| object[key].as_str().unwrap_or_default();
            // The rest of an Event's name is random.
            let name = text("name").split('.').next().unwrap_or_default();
            written.insert([text("resource"), text("namespace"), name].join(" "));
        }
        let code = &event["responseStatus"]["code"];
        ensure!(!is_ours || code != 403, "denied: {event}");
    }
    let expected = WRITTEN.map(str::to_owned).into();
    ensure!(written == expected, "{written:#?}");
    Ok(())
}

const NAME: &str = "pilot-discovery-canary";
const SERVICE: &str = "istiod-canary";
const ACCOUNTS: [&str; 2] = [NAME, "sidecar-injector-canary"];
const WRITTEN: [&str; 7] = [
    "configmaps istio-ours-late istio-ca-root-cert",
    "configmaps istio-ours-tagged-late istio-ca-root-cert",
    "events istio-system sidecar-injector-ca-canary",
    "mutatingwebhookconfigurations  istio-revision-tag-prod",
    "mutatingwebhookconfigurations  istio-sidecar-injector-canary",
    "secrets istio-system sidecar-injector-ca-canary",
    "tokenreviews  ",
];
