//! The program with its directory of files, and its Envoy.

use std::fmt::Display;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use e2e::envoy::{self, Ads, Envoy};
use e2e::http;
use e2e::port::free_port;
use e2e::process::Process;
use e2e::run_folder::RunFolder;
use e2e::wait::{self, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::objects::Mesh;

/// HTTP server that answers with its name, until the test ends.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
}

impl Backend {
    pub(crate) fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || answer(stream.unwrap(), name));
            }
        });
        Self { address }
    }
}

/// Answers the requests of a connection.
fn answer(mut stream: TcpStream, name: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        if line.trim().is_empty() {
            let response =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}", name.len());
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// The program and its Envoy. They end with the value.
pub(crate) struct Fixture {
    folder: RunFolder,
    directory: TempDir,
    grpc: SocketAddr,
    debug: SocketAddr,
    monitoring: SocketAddr,
    server: Process,
    envoy: Option<Envoy>,
}

impl Fixture {
    pub(crate) fn start(mesh: &Mesh) -> Self {
        Self::start_at(free_port().unwrap(), mesh)
    }

    /// Starts the program with a port of its plaintext listener.
    pub(crate) fn start_at(grpc: u16, mesh: &Mesh) -> Self {
        Self::start_with(grpc, mesh, &[])
    }

    /// Starts the program with further flags.
    pub(crate) fn start_with(grpc: u16, mesh: &Mesh, flags: &[&str]) -> Self {
        let folder = RunFolder::of_process().unwrap();
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), mesh);
        let grpc = local(grpc);
        let [debug, monitoring] = [(); 2].map(|()| local(free_port().unwrap()));
        // Without an agent, Envoy has no certificate.
        let settings = folder.write(SETTINGS, "enableAutoMtls: false\n").unwrap();
        let arguments = [
            "discovery".to_owned(),
            "--registries=Files".to_owned(),
            format!("--configDir={}", directory.path().display()),
            format!("--meshConfig={}", settings.display()),
            format!("--grpcAddr={grpc}"),
            format!("--httpAddr={debug}"),
            format!("--monitoringAddr={monitoring}"),
        ];
        let program = Path::new(env!("CARGO_BIN_EXE_pilot-discovery"));
        let arguments = arguments.into_iter().chain(flags.iter().map(|&flag| flag.to_owned()));
        let server = Process::start(&folder, "pilot-discovery", program, arguments).unwrap();
        let mut fixture = Self { folder, directory, grpc, debug, monitoring, server, envoy: None };
        fixture.wait_until_ready();
        fixture
    }

    /// Replaces the objects.
    pub(crate) fn write(&self, mesh: &Mesh) {
        write(self.directory.path(), mesh);
    }

    /// Replaces the mesh configuration.
    pub(crate) fn settings(&self, document: &str) {
        self.folder.write(SETTINGS, document).unwrap();
    }

    pub(crate) fn start_envoy(&mut self) {
        self.start_envoy_as("sidecar");
    }

    /// Starts Envoy as a proxy of this type.
    pub(crate) fn start_envoy_as(&mut self, kind: &str) {
        self.start_envoy_with(kind, &json!({"INTERCEPTION_MODE": "NONE"}));
    }

    /// Starts Envoy as a proxy of this type and metadata.
    pub(crate) fn start_envoy_with(&mut self, kind: &str, metadata: &Value) {
        let node = json!({
            "id": format!("{kind}~127.0.0.1~client-1.shop~shop.svc.cluster.local"),
            "cluster": "client",
            "metadata": metadata,
        });
        let address = envoy::socket_address(self.grpc);
        let bootstrap = envoy::ads_bootstrap(&node, &address, Ads::Delta);
        self.envoy = Some(Envoy::start(&self.folder, "envoy", bootstrap).unwrap());
    }

    /// Terminates the program, which has to end well, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.server.signal(Signal::TERM).unwrap();
        wait_for("the program ends", || if self.server.runs() { Err("it runs") } else { Ok(()) });
        assert!(self.log().contains("SIGTERM"), "{}", self.log());
        self.start_again();
    }

    pub(crate) fn kill(&mut self) {
        self.server.kill().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.server.start_again(&self.folder).unwrap();
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let debug = self.debug;
        let probe = || http::get(debug, "/ready").and_then(http::Response::expect_ok);
        self.server.wait_until("readiness", probe).unwrap();
    }

    /// Reads a debug page.
    pub(crate) fn page(&self, path: &str) -> Result<Value, String> {
        let response = http::get(self.debug, path).map_err(|error| error.to_string())?;
        serde_json::from_str(&response.body).map_err(|_| response.body)
    }

    pub(crate) fn metrics(&self) -> String {
        http::get(self.monitoring, "/metrics").unwrap().expect_ok().unwrap()
    }

    /// Number of resources that the program has sent since its start.
    pub(crate) fn sent_resources(&self) -> u64 {
        let page = self.metrics();
        let lines = page.lines().filter(|line| line.starts_with("pilot_xds_resources{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    pub(crate) fn log(&self) -> String {
        self.server.said().unwrap()
    }

    fn running_envoy(&self) -> &Envoy {
        self.envoy.as_ref().expect("Envoy runs")
    }

    /// Reads a page of Envoy's admin interface.
    pub(crate) fn admin(&self, path: &str) -> Result<String, String> {
        self.running_envoy().get(path).map_err(|error| format!("{error:#}"))
    }

    /// Checks that Envoy has rejected nothing and waits for nothing.
    pub(crate) fn is_at_rest(&self) {
        let page = self.running_envoy().get("/stats").unwrap();
        for (name, value) in page.lines().filter_map(|line| line.split_once(": ")) {
            if name.ends_with("update_rejected") || name.contains("warming") {
                assert_eq!(value, "0", "{name}");
            }
        }
    }
}

/// Replaces the file by renaming, so that none is read half-written.
fn write(directory: &Path, mesh: &Mesh) {
    let new = directory.join(".new");
    fs::write(&new, mesh.yaml()).unwrap();
    fs::rename(new, directory.join("mesh.yaml")).unwrap();
}

/// Sends a request through Envoy. Returns status and body.
pub(crate) fn get(port: u16, host: &str) -> Result<(u16, String), String> {
    let exchange = || {
        let mut stream = TcpStream::connect(local(port))?;
        stream.set_read_timeout(Some(wait::TIMEOUT))?;
        write!(stream, "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    let text = exchange().map_err(|error| error.to_string())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no response")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or("no status")?, body.to_owned()))
}

/// Checks the answer to a request through Envoy.
pub(crate) fn expect(port: u16, host: &str, body: &str) -> Result<(), String> {
    let answer = get(port, host)?;
    if answer == (200, body.to_owned()) { Ok(()) } else { Err(format!("{answer:?}")) }
}

pub(crate) fn wait_for<E: Display>(what: &str, probe: impl FnMut() -> Result<(), E>) {
    until(what, probe).unwrap();
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
const SETTINGS: &str = "mesh-config.yaml";
