//! Reviews at a given rate over TLS, on kept connections, against the built program.
//!
//! `OUTRIGGER_RATE` and `OUTRIGGER_SECONDS` change the 500 reviews per second and the 20 seconds;
//! `SIDECAR_INJECTOR` names another program than the one in `dist/`.

#![allow(clippy::expect_used, reason = "a benchmark fails by panic")]
#![allow(clippy::print_stdout, reason = "figures are what it is for")]

mod cases;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cases::{Overlay, Review};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::interval_at;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

fn main() {
    let program = Program::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let (rate, seconds) = (number("OUTRIGGER_RATE", 500), number("OUTRIGGER_SECONDS", 20));
    println!("| review | reviews | p50 | p99 | p99.9 | slowest | CPU each | resident | at most |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for pod in ["small", "typical"] {
        let review = Review::new(pod, Overlay::BuiltIn).expect("a review that needs no files");
        let begin = program.usage();
        let mut times = runtime.block_on(load(&program, &review.body, rate, seconds));
        let end = program.usage();
        times.sort_unstable();
        let at = |share: usize| times[(times.len() * share / 1000).min(times.len() - 1)];
        println!(
            "| {pod} | {} at {rate}/s | {:?} | {:?} | {:?} | {:?} | {} µs | {} KiB | {} KiB |",
            times.len(),
            at(500),
            at(990),
            at(999),
            at(1000),
            (end.cpu - begin.cpu) / times.len() as u64,
            end.resident,
            end.peak,
        );
    }
}

/// Returns the duration of each review. They are sent at a steady rate over all connections
/// together.
async fn load(program: &Program, body: &[u8], rate: u32, seconds: u32) -> Vec<Duration> {
    let period = Duration::from_secs(1) * CONNECTIONS / rate;
    let each = rate * seconds / CONNECTIONS;
    let head = format!(
        "POST /inject?timeout=10s HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let request: Arc<[u8]> = [head.as_bytes(), body].concat().into();
    let start = tokio::time::Instant::now() + period;
    let mut callers = Vec::new();
    for index in 0..CONNECTIONS {
        let mut stream = program.connect().await;
        let request = Arc::clone(&request);
        callers.push(tokio::spawn(async move {
            let mut ticks = interval_at(start + period * index / CONNECTIONS, period);
            let mut times = Vec::new();
            for _ in 0..each {
                ticks.tick().await;
                let begin = Instant::now();
                stream.write_all(&request).await.expect("sending a review");
                answer(&mut stream).await;
                times.push(begin.elapsed());
            }
            times
        }));
    }
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await.expect("a caller"));
    }
    times
}

async fn answer(stream: &mut TlsStream<TcpStream>) {
    let mut bytes = Vec::with_capacity(16 << 10);
    loop {
        let count = stream.read_buf(&mut bytes).await.expect("an answer");
        assert_ne!(count, 0, "the answer breaks off");
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
        if bytes.len() >= end + 4 + length {
            let body = &bytes[end + 4..];
            assert!(body.windows(9).any(|window| window == b"JSONPatch"), "no patch");
            return;
        }
    }
}

struct Program {
    child: Child,
    address: SocketAddr,
    connector: TlsConnector,
}

impl Program {
    fn start() -> Self {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/sidecar-injector");
        let program = std::env::var_os("SIDECAR_INJECTOR").map_or(dist, Into::into);
        let directory = tempfile::TempDir::new().expect("a directory");
        let ca = directory.path().join("ca.pem");
        let mut child = Command::new(&program)
            .args(["--httpsAddr=127.0.0.1:0", "--adminAddr=127.0.0.1:0", "--log_as_json"])
            .arg("--writeCaFile")
            .arg(&ca)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; `make build`?", program.display()));
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut entries = lines
            .map_while(Result::ok)
            .map(|line| serde_json::from_str::<Value>(&line).unwrap_or(Value::String(line)));
        let listening = entries.find(|entry| entry["message"] == "listening").expect("a start");
        let address = listening["https"].as_str().and_then(|text| text.parse().ok());
        // Reads the whole log, as a log collector does, and drops it.
        std::thread::spawn(move || entries.for_each(drop));
        let mut roots = RootCertStore::empty();
        let pem = fs::read(&ca).expect("the CA");
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.expect("a certificate")).expect("a CA");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Self { child, address: address.expect("an address"), connector }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        let name = ServerName::IpAddress(self.address.ip().into());
        self.connector.connect(name, stream).await.expect("a handshake")
    }

    fn usage(&self) -> Usage {
        let process = self.child.id();
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process");
        let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            number.and_then(|text| text.parse().ok()).expect("a number")
        };
        let (resident, peak) = (field("VmRSS:"), field("VmHWM:"));
        Usage { cpu: ticks * MICROSECONDS_PER_TICK, resident, peak }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resource usage of a process.
struct Usage {
    /// CPU time in microseconds.
    cpu: u64,
    /// Resident memory in KiB.
    resident: u64,
    peak: u64,
}

fn number(variable: &str, default: u32) -> u32 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable}: {text:?}")))
}

const CONNECTIONS: u32 = 16;
/// Clock tick of `times(2)`, the same on all common Linux systems.
const MICROSECONDS_PER_TICK: u64 = 10_000;
