//! A pod that makes requests without a pause.

use std::cell::RefCell;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpStream};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::cluster::Cluster;
use e2e::namespace::{Namespace, address_of};
use e2e::pod_processes::Killed;
use e2e::wait;
use serde::Deserialize;
use serde_json::{Value, json};

/// Requests of the pod `load` to the two replicas of `server`, at a constant rate.
pub(crate) struct Load {
    report: SocketAddr,
    killed: RefCell<Vec<Killed>>,
}

/// The answers so far, and the failures since the last report.
#[derive(Deserialize)]
struct Report {
    answered: u64,
    failed: Vec<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    began: u64,
    ended: u64,
    reason: String,
}

impl Load {
    /// Returns the running load. The first story that needs it starts it.
    pub(crate) fn running(cluster: &Cluster) -> Result<Self> {
        let shop = cluster.existing_namespace("shop");
        let pods = shop.pods("app=load")?;
        let load = match pods.first() {
            Some(pod) => Self::of(address_of(pod)?),
            None => start(&shop, "")?,
        };
        load.continues("at the start of a story")?;
        Ok(load)
    }

    /// Returns a load whose certificates, and those of its servers, are renewed all the time.
    pub(crate) fn with_short_certificates(cluster: &Cluster) -> Result<Self> {
        let config = "proxyMetadata: {SECRET_TTL: 20s}";
        start(&cluster.existing_namespace("shop"), config)
    }

    fn of(pod: IpAddr) -> Self {
        Self { report: (pod, REPORT_PORT).into(), killed: RefCell::default() }
    }

    /// Excuses requests that were in flight when a process of a server was killed.
    pub(crate) fn excuse(&self, killed: Killed) {
        self.killed.borrow_mut().push(killed);
    }

    /// Waits for the answers of some seconds, and asserts that no request has failed.
    pub(crate) fn continues(&self, when: &str) -> Result<()> {
        self.continues_for(ENOUGH, when)
    }

    /// Waits as [`Self::continues`] for a number of answers.
    pub(crate) fn continues_for(&self, enough: u64, when: &str) -> Result<()> {
        let before = self.answered(when)?;
        wait::until(&format!("requests {when} are answered"), || match self.answered(when) {
            Ok(answered) if answered < before + enough => {
                Err(format!("{answered} answers, {before} before"))
            }
            outcome => Ok(outcome),
        })?
        .map(drop)
    }

    /// Number of answers. The report has each failure once.
    #[expect(clippy::print_stdout, reason = "shows in the log what a kill cost")]
    fn answered(&self, when: &str) -> Result<u64> {
        let Report { answered, failed } = self.read()?;
        let killed = self.killed.borrow();
        let is_excused =
            |one: &&Failure| killed.iter().any(|killed| killed.overlaps(one.began, one.ended));
        let (excused, failed): (Vec<_>, Vec<_>) = failed.iter().partition(is_excused);
        if let Some(Failure { began, ended, reason }) = excused.first() {
            println!(
                "{} requests in flight {when}, from {began} to {ended}: {reason}",
                excused.len()
            );
        }
        if let Some(Failure { began, ended, reason }) = failed.first() {
            let count = failed.len();
            bail!("{count} requests failed {when}; the first, from {began} to {ended}: {reason}");
        }
        Ok(answered)
    }

    fn read(&self) -> Result<Report> {
        let mut stream = TcpStream::connect_timeout(&self.report, wait::TIMEOUT)?;
        stream.set_read_timeout(Some(wait::TIMEOUT))?;
        let mut report = String::new();
        stream.read_to_string(&mut report)?;
        serde_json::from_str(&report).with_context(|| format!("reading {report:?}"))
    }
}

/// Starts the servers and the load, or replaces them by some with another configuration.
fn start(shop: &Namespace<'_>, config: &str) -> Result<Load> {
    let before = shop.pods("app=load")?;
    let annotations = json!({
        // The report shall be readable while the pod's own sidecar is away.
        "traffic.sidecar.istio.io/excludeInboundPorts": REPORT_PORT.to_string(),
        "proxy.istio.io/config": format!("{DRAIN}{config}"),
    });
    shop.apply(&service("server", &json!([{ "name": "http", "port": 80, "targetPort": 8080 }])))?;
    shop.apply(&deployment("server", 2, &annotations, &["--http=8080"]))?;
    shop.wait_until_available("server")?;
    let report = format!("--report={REPORT_PORT}");
    let words = ["--load=http://server/load", "--rate=100", "--http=8080", &report];
    if let [pod] = &before[..] {
        Load::of(address_of(pod)?).continues("while its servers are replaced")?;
    }
    shop.apply(&deployment("load", 1, &annotations, &words))?;
    shop.wait_until_available("load")?;
    wait::until("the first request is answered", || {
        let load = Load::of(address_of(&shop.pod("app=load")?)?);
        ensure!(load.answered("at the start")? > 0, "no answer yet");
        anyhow::Ok(load)
    })
}

/// Returns a Service of the pods with the same name.
pub(crate) fn service(name: &str, ports: &Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name },
        "spec": { "selector": { "app": name }, "ports": ports },
    })
    .to_string()
}

/// Returns a Deployment of the tests' application, which is ready when it answers on port 8080.
pub(crate) fn deployment(name: &str, replicas: u32, annotations: &Value, args: &[&str]) -> String {
    let container = json!({
        "name": "app",
        "image": "localhost/outrigger/app:0.1.0",
        "args": args,
        // On a busy machine, an application without a share of its own hardly runs.
        "resources": { "requests": { "cpu": "20m" } },
        "readinessProbe": { "httpGet": { "path": "/load", "port": 8080 }, "periodSeconds": 1 },
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name }, "annotations": annotations },
                "spec": { "containers": [container] },
            },
        },
    })
    .to_string()
}

const REPORT_PORT: u16 = 9099;
/// Time for the requests in progress when a pod is terminated. On a busy machine, some take longer than Istio's
/// five seconds, after which a sidecar ends with them.
const DRAIN: &str = "terminationDrainDuration: 20s\n";
/// Answers that show that requests go on: those of two seconds.
const ENOUGH: u64 = 200;
