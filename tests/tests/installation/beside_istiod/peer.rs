//! A workload of Istio's: TLS by openssl, with a certificate of istiod.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::istio_programs::Istiod;
use e2e::process::Process;
use pilot_agent::channel::{ChannelOptions, ControlPlane};
use pilot_agent::config::RootSource;
use pilot_agent::secrets::client::CertificateClient;
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use crate::fixture::Fixture;

use super::THEIRS;
use super::shared_ca::SharedCa;
use super::sidecar::{self, Workload};

pub(super) struct Peer {
    folder: TempDir,
    root: PathBuf,
    _server: Process,
}

impl Peer {
    /// Creates the pod and its Service, and starts a server that rejects clients without a
    /// certificate of the mesh.
    pub(super) fn start(fixture: &Fixture, istiod: &Istiod, ca: &SharedCa) -> Result<Self> {
        PEER.create(fixture)?;
        let folder = tempfile::tempdir().context("making a folder")?;
        sign(fixture, &istiods(istiod, ca), folder.path())?;
        let root = ca.root_file();
        let server = ["s_server", "-quiet", "-www", "-Verify", "3", "-verify_return_error"];
        let (chdir, accept) = (format!("--chdir={}", folder.path().display()), PEER.socket());
        let server = [chdir.as_str(), "openssl"].into_iter().chain(server);
        let server = server.chain(["-accept", &accept, "-alpn", "istio,istio-peer-exchange"]);
        let server = server.chain(CERTIFICATE).map(str::to_owned);
        let server = server.chain(["-CAfile".to_owned(), root.display().to_string()]);
        let env = Path::new("/usr/bin/env");
        let server = Process::start(fixture.servers.folder(), "peer", env, server)?;
        Ok(Self { folder, root, _server: server })
    }

    /// Requests one more certificate, for the workload's token.
    pub(super) fn sign(&self, fixture: &Fixture, options: &ChannelOptions) -> Result<()> {
        let folder = tempfile::tempdir().context("making a folder")?;
        sign(fixture, options, folder.path())?;
        let verify = ["verify", "-purpose", "sslclient", "-untrusted", "chain.pem", "-CAfile"];
        let mut openssl = Command::new("openssl");
        openssl.args(verify).arg(&self.root).arg("leaf.pem").current_dir(folder.path());
        let verified = openssl.output().context("openssl verify")?;
        ensure!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
        Ok(())
    }

    /// Sends a request to the sidecar, which tells the application about the client.
    pub(super) fn calls_sidecar(&self) -> Result<()> {
        let answer = self.connect(&sidecar::WEB.socket(), "istio-http/1.1", &CERTIFICATE)?;
        let expected = "URI=spiffe://cluster.local/ns/istio-theirs/sa/peer";
        ensure!(answer.contains(expected), "no {expected} in {answer}");
        Ok(())
    }

    pub(super) fn rejects_clients_without_certificate(&self) -> Result<()> {
        match self.connect(&PEER.socket(), "istio", &[]) {
            Ok(answer) => bail!("it answers {answer}"),
            Err(_) => Ok(()),
        }
    }

    /// Sends a request with mutual TLS. The server's certificate is verified.
    fn connect(&self, to: &str, alpn: &str, further: &[&str]) -> Result<String> {
        let mut openssl = Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_return_error", "-connect", to, "-alpn", alpn])
            .args(further)
            .arg("-CAfile")
            .arg(&self.root)
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("openssl s_client")?;
        let mut input = openssl.stdin.take().context("no input")?;
        // A failed handshake closes it, which the output explains.
        let _ =
            input.write_all(b"GET / HTTP/1.1\r\nHost: web.istio-ours\r\nConnection: close\r\n\r\n");
        let output = openssl.wait_with_output()?;
        drop(input);
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(answer.contains(" 200 "), "{to}: {answer}{errors}");
        Ok(answer)
    }
}

/// Has a new key signed for the workload, and writes key, leaf and chain.
fn sign(fixture: &Fixture, options: &ChannelOptions, folder: &Path) -> Result<()> {
    let token = folder.join("istio-token");
    fs::write(&token, PEER.token(fixture)?)?;
    let options = ChannelOptions { token: Some(token), ..options.clone() };
    let key = KeyPair::generate()?;
    let request = CertificateParams::default().serialize_request(&key)?.pem()?;
    let client = CertificateClient::new(ControlPlane::new(options, None), LIMIT);
    let chain = fixture.runtime.block_on(client.sign(request, Duration::from_secs(3600)))?;
    let (leaf, chain) = chain.split_first().context("no certificate")?;
    fs::write(folder.join("key.pem"), key.serialize_pem())?;
    fs::write(folder.join("leaf.pem"), leaf)?;
    Ok(fs::write(folder.join("chain.pem"), chain.concat())?)
}

/// Connection to istiod.
pub(super) fn istiods(istiod: &Istiod, ca: &SharedCa) -> ChannelOptions {
    channel(&istiod.secure().to_string(), "istiod", ca)
}

/// Connection to a control plane, without token.
pub(super) fn channel(address: &str, service: &str, ca: &SharedCa) -> ChannelOptions {
    ChannelOptions {
        address: address.to_owned(),
        server_name: Some(format!("{service}.istio-system.svc")),
        root: RootSource::File(ca.root_file()),
        token: None,
        cluster_id: "Kubernetes".to_owned(),
        headers: Vec::new(),
        plaintext: false,
    }
}

/// The workload. It answers any protocol, so its port is TCP.
pub(super) const PEER: Workload =
    Workload { name: "peer", namespace: THEIRS, address: "10.244.0.2", port: "tcp" };
const CERTIFICATE: [&str; 6] = ["-cert", "leaf.pem", "-key", "key.pem", "-cert_chain", "chain.pem"];
const LIMIT: Duration = Duration::from_secs(30);
