//! The program without Envoy, as a process beside istiod.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use e2e::http;
use e2e::port::free_port;
use e2e::process::Process;
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{Fixture, NAMESPACE, SERVER_NAME, SERVICE_ACCOUNT};

/// A running agent. It ends with the value.
pub(crate) struct Agent {
    process: Process,
    status: SocketAddr,
    folder: TempDir,
}

impl Agent {
    /// Starts an agent whose certificates live for some seconds.
    pub(crate) fn start(fixture: &Fixture, name: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        for (file, from) in [
            ("var/run/secrets/istio/root-cert.pem", fixture.root()),
            ("var/run/secrets/tokens/istio-token", &*fixture.token("istio-ca")?),
        ] {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().context("a folder")?)?;
            fs::copy(from, file)?;
        }
        let port = free_port()?;
        let address = fixture.address();
        let config = json!({ "discoveryAddress": address, "statusPort": port });
        let command = [
            "-i".to_owned(),
            format!("--chdir={}", folder.path().display()),
            format!("PROXY_CONFIG={config}"),
            "PILOT_CERT_PROVIDER=istiod".to_owned(),
            format!("CA_ADDR={address}"),
            format!("ISTIOD_SAN={SERVER_NAME}"),
            "POD_NAME=web-1".to_owned(),
            format!("POD_NAMESPACE={NAMESPACE}"),
            format!("SERVICE_ACCOUNT={SERVICE_ACCOUNT}"),
            "INSTANCE_IP=127.0.0.1".to_owned(),
            "TRUST_DOMAIN=cluster.local".to_owned(),
            "ISTIO_META_CLUSTER_ID=Kubernetes".to_owned(),
            "DISABLE_ENVOY=true".to_owned(),
            "SECRET_TTL=12s".to_owned(),
            env!("CARGO_BIN_EXE_pilot-agent").to_owned(),
            "proxy".to_owned(),
            "sidecar".to_owned(),
        ];
        let process = Process::start(fixture.folder(), name, Path::new("/usr/bin/env"), command)?;
        Ok(Self { process, status: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), folder })
    }

    /// Socket of the relay.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("etc/istio/proxy/XDS")
    }

    /// Returns the text of readiness.
    pub(crate) fn readiness(&self) -> Result<String> {
        let answer = http::get(self.status, "/healthz/ready")?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(answer.body)
    }

    /// Returns the value of a metric without labels, or with them.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let page = http::get(self.status, "/stats/prometheus")?.body;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.with_context(|| format!("no {name} in {page}"))?.parse().context("a number")
    }

    /// Number of open file descriptors.
    pub(crate) fn descriptors(&self) -> Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.process.id()))?.count())
    }

    /// Resident memory in KiB.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        value.context("no VmRSS")?.trim().trim_end_matches(" kB").parse().context("a number")
    }
}
