//! Fixture of a pod: a network namespace with capture rules and the DNS proxy, linked to another
//! one with name servers.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use e2e::netns::{Namespace, Owner};
use e2e::wait::until;
use mesh::spiffe::TrustDomain;
use pilot_agent::config::{DnsOptions, Pod as PodOptions};
use pilot_agent::dns::{Entry, Metrics, Names, Server, Table};
use tempfile::NamedTempFile;
use tokio::runtime;
use tokio::sync::{oneshot, watch};

use crate::istio_init::istio_init;

/// A pod and its outside.
pub(crate) struct Pod {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) world: Arc<Namespace>,
}

/// The DNS proxy, which runs until the value is dropped.
pub(crate) struct Agent {
    pub(crate) names: watch::Sender<Option<Publication>>,
    pub(crate) metrics: Metrics,
    pub(crate) view: Names,
    _resolv_conf: NamedTempFile,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Names that the control plane publishes.
pub(crate) type Publication = fn() -> Table;

/// Settings of the DNS proxy.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) servers: Vec<IpAddr>,
    pub(crate) parallel: bool,
    pub(crate) timeout: Duration,
    pub(crate) owner: Owner,
    /// Namespace of the pod.
    pub(crate) namespace: &'static str,
}

impl Pod {
    /// Creates a pod without capture rules.
    pub(crate) fn create() -> Self {
        // A build lasts longer than neighbours stay known, and then the link loses packets again.
        istio_init();
        let namespace = Namespace::create().unwrap();
        let world = Namespace::create().unwrap();
        namespace.connect("eth0", &world, "eth0").unwrap();
        namespace
            .ip("address add 192.168.77.2/24 dev eth0
                 address add fd77::2/64 dev eth0 nodad
                 route add default via 192.168.77.1
                 route add default via fd77::1")
            .unwrap();
        world
            .ip("address add 192.168.77.1/24 dev eth0
                 address add fd77::1/64 dev eth0 nodad
                 address add 10.96.0.10/32 dev lo
                 address add 10.96.0.11/32 dev lo
                 address add fd96::a/128 dev lo nodad
                 address add fd96::b/128 dev lo nodad")
            .unwrap();
        // A link loses packets for a while after it is up; TCP repeats them.
        for neighbour in ["192.168.77.1:1", "[fd77::1]:1"] {
            let connect = || TcpStream::connect(neighbour).map(drop);
            let error = namespace.run(connect).unwrap().expect_err("a closed port");
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{neighbour}: {error}");
        }
        Self { namespace: Arc::new(namespace), world: Arc::new(world) }
    }

    /// Installs the capture rules that an injected pod with DNS capture has.
    pub(crate) fn capture(&self, servers: &[IpAddr], switches: &[&str]) {
        let file = resolv_conf(servers, "shop");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", WITH_RESOLV_CONF]).arg(file.path()).arg(istio_init());
        command.args(["istio-iptables", "--backend=nftables", "-p", "15001", "-z", "15006"]);
        command.args(["-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*"]);
        command.args(["-d", "15090,15021,15020", "--dual-stack", "--redirect-dns"]).args(switches);
        self.namespace.output(&mut command, "").expect("istio-init");
    }

    /// Starts the DNS proxy.
    pub(crate) fn start(&self, settings: &Settings) -> Agent {
        let resolv_conf = resolv_conf(&settings.servers, settings.namespace);
        let options = DnsOptions {
            listen: settings.listen.clone(),
            resolv_conf: resolv_conf.path().to_owned(),
            forward_parallel: settings.parallel,
            forward_timeout: settings.timeout,
            forwards_before_table: settings.listen.iter().any(|address| address.port() == 53),
        };
        let (names, receiver) = watch::channel(None);
        let metrics = Metrics::default();
        let (stop, stopped) = oneshot::channel();
        let (started, start) = mpsc::channel();
        let namespace = Arc::clone(&self.namespace);
        let (owner, counters) = (settings.owner, metrics.clone());
        let pod = pod_options(settings.namespace);
        let thread = thread::spawn(move || {
            let serve = || {
                let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let server = Server::bind(&options, &pod, counters).unwrap();
                    started.send(server.names()).unwrap();
                    tokio::select! {
                        () = server.run(receiver, |table: &Publication| table()) => {}
                        _ = stopped => {}
                    }
                });
            };
            namespace.run_as(owner, serve).unwrap();
        });
        let view = start.recv().expect("the DNS proxy starts");
        Agent {
            names,
            metrics,
            view,
            _resolv_conf: resolv_conf,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Agent {
    /// Publishes a name table, and waits until the server has it.
    pub(crate) fn publish(&self, names: Publication) {
        self.names.send_replace(Some(names));
        let received = || if self.view.received() { Ok(()) } else { Err("no table") };
        until("the table is there", received).unwrap();
    }
}

/// Returns a name table with two Services and an external host.
pub(crate) fn names() -> Table {
    let web = ["10.96.1.1".to_owned(), "fd96::1:1".to_owned()];
    let big: Vec<String> = (0..3000).map(|n| format!("10.7.{}.{}", n / 250, n % 250)).collect();
    let entry = |host, ips, registry, shortname| Entry {
        host,
        ips,
        registry,
        shortname,
        namespace: "shop",
    };
    Table::new([
        entry("web.shop.svc.cluster.local", &web, "Kubernetes", "web"),
        entry("big.shop.svc.cluster.local", &big, "Kubernetes", "big"),
        entry("example.com", &web[..1], "External", ""),
    ])
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed already.
            let _ = thread.join();
        }
    }
}

impl Settings {
    /// Settings of an injected pod with these name servers.
    pub(crate) fn new(servers: &[&str]) -> Self {
        Self {
            listen: ["127.0.0.1:15053", "[::1]:15053"].map(|ip| ip.parse().unwrap()).to_vec(),
            servers: servers.iter().map(|server| server.parse().unwrap()).collect(),
            parallel: false,
            // No query of a test waits as long, unless the test sets less.
            timeout: Duration::from_secs(600),
            owner: Owner { uid: 1337, gid: 1337 },
            namespace: "shop",
        }
    }
}

fn pod_options(namespace: &str) -> PodOptions {
    PodOptions {
        name: "web-0".to_owned(),
        namespace: namespace.to_owned(),
        service_account: "default".to_owned(),
        addresses: vec!["192.168.77.2".parse().unwrap(), "fd77::2".parse().unwrap()],
        trust_domain: TrustDomain::parse("cluster.local").unwrap(),
        cluster_id: "Kubernetes".to_owned(),
        domain: format!("{namespace}.svc.cluster.local"),
        node_id: format!("sidecar~192.168.77.2~web-0.{namespace}~{namespace}.svc.cluster.local"),
    }
}

fn resolv_conf(servers: &[IpAddr], namespace: &str) -> NamedTempFile {
    let services = "svc.cluster.local";
    let mut text = format!("search {namespace}.{services} {services} cluster.local\n");
    for server in servers {
        writeln!(text, "nameserver {server}").unwrap();
    }
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    fs::set_permissions(file.path(), Permissions::from_mode(0o644)).unwrap();
    file
}

const WITH_RESOLV_CONF: &str = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
