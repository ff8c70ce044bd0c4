//! A running `sidecar-injector` at the address of its Service, where the API server calls it.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use e2e::port::free_port;
use e2e::process::Process;
use e2e::{http, wait};
use serde_json::Value;

use crate::fixture::{Fixture, documents};
use crate::mounted_volumes::Mounted;

pub(crate) struct Injector {
    pub(crate) process: Process,
    admin: SocketAddr,
}

impl Injector {
    /// Starts the program as a rendered Deployment would, with its flags and its account's token,
    /// and waits until it is ready.
    pub(crate) fn of_manifests(fixture: &Fixture, rendered: &str) -> Result<Self> {
        let mut injector = Self::launch(fixture, rendered, &[])?;
        injector.until_ready()?;
        Ok(injector)
    }

    /// Starts the program as [`Injector::of_manifests`] with further flags, and without waiting.
    pub(crate) fn launch(fixture: &Fixture, rendered: &str, further: &[String]) -> Result<Self> {
        let documents = documents(rendered)?;
        let deployment = documents.iter().find(|one| {
            one["kind"] == "Deployment" && one["metadata"]["labels"]["app"] == "sidecar-injector"
        });
        let deployment = deployment.context("there is no Deployment")?;
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut flags: Vec<String> =
            container["args"].as_array().context("there are no flags")?.iter().map(text).collect();
        let env = container["env"].as_array().into_iter().flatten();
        let revision = env.filter(|one| one["name"] == "REVISION").map(|one| text(&one["value"]));
        flags.extend(revision.map(|revision| format!("--revision={revision}")));
        let account = text(&pod["serviceAccountName"]);
        let kubeconfig = fixture.servers.kubeconfig(0, &account, &token(fixture, &account)?)?;
        flags.push(format!("--kubeconfig={}", kubeconfig.display()));
        flags.extend_from_slice(further);
        Self::begin(fixture, &text(&deployment["metadata"]["name"]), &flags)
    }

    /// Starts the program as a Deployment that mounts all its input: no kubeconfig, no token.
    pub(crate) fn of_mounted(
        fixture: &Fixture,
        deployment: &Value,
        mounted: &Mounted,
    ) -> Result<Self> {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let flags = container["args"].as_array().context("there are no flags")?;
        let flags = flags.iter().filter_map(Value::as_str).map(|flag| mounted.flag(flag));
        let name = deployment["metadata"]["name"].as_str().context("a Deployment has a name")?;
        let env = container["env"].as_array().into_iter().flatten();
        let revision = env
            .filter(|one| one["name"] == "REVISION")
            .map(|one| format!("--revision={}", one["value"].as_str().unwrap_or_default()));
        Self::start(fixture, name, &flags.chain(revision).collect::<Vec<_>>())
    }

    /// Waits until the log has a text.
    pub(crate) fn until_it_says(&self, text: &str) -> Result<()> {
        wait::until(&format!("it says {text:?}"), || {
            ensure!(self.process.said()?.contains(text), "not yet");
            anyhow::Ok(())
        })
    }

    /// Starts it as the Service `service` in `istio-system`, and waits until it is ready.
    pub(crate) fn start(fixture: &Fixture, service: &str, flags: &[String]) -> Result<Self> {
        let mut injector = Self::begin(fixture, service, flags)?;
        injector.until_ready()?;
        Ok(injector)
    }

    fn begin(fixture: &Fixture, service: &str, flags: &[String]) -> Result<Self> {
        let service_object = fixture.get("service", service)?;
        let address = &service_object["spec"]["clusterIP"];
        let address = address.as_str().context("a Service has an address")?;
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let own = [
            format!("--httpsAddr={address}:443"),
            format!("--adminAddr={admin}"),
            "--shutdown-delay=1s".to_owned(),
        ];
        let folder = fixture.servers.folder();
        // In a pod the port would be free; here, several injectors share an address.
        let flags = flags.iter().filter(|flag| !flag.starts_with("--probeAddr="));
        let flags = own.iter().chain(flags);
        let process = Process::start(folder, service, &fixture.injector, flags)?;
        Ok(Self { process, admin })
    }

    pub(crate) fn is_ready(&self) -> bool {
        http::get(self.admin, "/healthz/ready").is_ok_and(|answer| answer.expect_ok().is_ok())
    }

    pub(crate) fn until_ready(&mut self) -> Result<()> {
        let admin = self.admin;
        self.process.wait_until("the injector is ready", || {
            http::get(admin, "/healthz/ready")?.expect_ok().map(drop)
        })
    }

    pub(crate) fn metrics(&self) -> Result<String> {
        http::get(self.admin, "/metrics")?.expect_ok()
    }

    /// Returns the sum of a counter over all series with this prefix.
    pub(crate) fn count(&self, series: &str) -> Result<u64> {
        let page = self.metrics()?;
        let values = page.lines().filter(|line| line.starts_with(series));
        values
            .map(|line| {
                let value = line.rsplit(' ').next().unwrap_or_default();
                value.parse::<u64>().with_context(|| format!("reading {line}"))
            })
            .sum()
    }
}

impl Drop for Injector {
    /// Kills the program: its shutdown takes a second, which no caller waits for.
    fn drop(&mut self) {
        // One that has ended is as good.
        let _ = self.process.kill();
    }
}

/// Returns a token of an account in `istio-system`.
pub(crate) fn token(fixture: &Fixture, account: &str) -> Result<String> {
    token_in(fixture, "istio-system", account)
}

/// Returns a token of an account in any namespace.
pub(crate) fn token_in(fixture: &Fixture, namespace: &str, account: &str) -> Result<String> {
    fixture.runtime.block_on(fixture.objects.token(namespace, account))
}
