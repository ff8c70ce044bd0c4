//! Two pods with sidecars, each in a network namespace with the rules of `istio-init`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context as _, Result, bail};
use e2e::mesh_authority::MeshAuthority;
use e2e::netns::{Namespace, Owner};
use e2e::wait;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use pilot_routing::view::Interception;
use tonic::transport::Endpoint;

use crate::istio_init::istio_init;
use crate::proxy::Proxy;
use crate::server::{grpc_application, secrets};
use crate::world::World;

/// A pod with a sidecar.
pub(crate) struct Pod {
    pub(crate) namespace: Rc<Namespace>,
    pub(crate) proxy: Proxy,
}

/// Two connected pods.
pub(crate) struct Pods {
    pub(crate) client: Pod,
    pub(crate) server: Pod,
}

impl Pods {
    /// Starts the proxies with the configuration of two worlds that differ in the proxy alone.
    pub(crate) fn start(client: &World, server: &World) -> Result<Self> {
        let identity = |account| format!("spiffe://cluster.local/ns/shop/sa/{account}");
        Self::with_identities((client, &identity("web")), (server, &identity("api")))
    }

    /// Starts the proxies with certificates of these identities.
    pub(crate) fn with_identities(client: (&World, &str), server: (&World, &str)) -> Result<Self> {
        let namespaces = [Rc::new(Namespace::create()?), Rc::new(Namespace::create()?)];
        namespaces[0].connect("eth0", &namespaces[1], "eth0")?;
        let worlds = [(client.0, server.0), (server.0, client.0)];
        for (namespace, (own, _)) in namespaces.iter().zip(worlds) {
            for address in &own.proxy.addresses {
                let rest = if address.is_ipv4() { "/24 dev eth0" } else { "/64 dev eth0 nodad" };
                namespace.ip(&format!("address add {address}{rest}"))?;
            }
        }
        for (namespace, (_, other)) in namespaces.iter().zip(worlds) {
            for address in &other.proxy.addresses {
                namespace.ip(&format!("route add default via {address}"))?;
            }
        }
        let authority = MeshAuthority::create()?;
        let [one, two] = namespaces;
        Ok(Self {
            client: Pod::start(one, client.0, &secrets(&authority, client.1)?)?,
            server: Pod::start(two, server.0, &secrets(&authority, server.1)?)?,
        })
    }
}

impl Pod {
    fn start(namespace: Rc<Namespace>, world: &World, secrets: &[Secret]) -> Result<Self> {
        // With TPROXY the injector gives the proxy another user: connections of 1337 to the pod's
        // own address are redirected.
        let (mode, owner) = match world.proxy.interception {
            Interception::Redirect => (Some("REDIRECT"), UNCAPTURED),
            Interception::Tproxy => (Some("TPROXY"), Owner { uid: 0, gid: 1337 }),
            Interception::None => (None, UNCAPTURED),
        };
        if let Some(mode) = mode {
            let mut rules = Command::new(istio_init());
            rules.args(["istio-iptables", "--backend=nftables", "-p", "15001", "-z", "15006"]);
            rules.args(["-u", "1337", "-m", mode, "-i", "*", "-x", "", "-b", "*"]);
            rules.args(["-d", "15090,15021,15020", "--dual-stack"]);
            namespace.output(&mut rules, "").context("istio-init")?;
        }
        let resources = world.resources();
        let mut proxy = Proxy::start(Rc::clone(&namespace), owner, &resources, secrets)?;
        proxy.settle(&resources)?;
        Ok(Self { namespace, proxy })
    }

    /// Serves on a port: HTTP/1.1 with the peer and the client's certificate in the body, or an
    /// echo of other first bytes.
    pub(crate) fn serve(&self, address: &str, port: u16) -> Result<()> {
        self.listen(address, port, |mut tcp| {
            let peer = tcp.peer_addr()?.ip();
            let mut reader = BufReader::new(tcp.try_clone()?);
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if !line.starts_with("GET ") {
                return write!(tcp, "echo {peer} {line}");
            }
            let mut certificate = "none".to_owned();
            while !line.trim().is_empty() {
                line.clear();
                reader.read_line(&mut line)?;
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("x-forwarded-client-cert: ") {
                    value.trim().clone_into(&mut certificate);
                }
            }
            let body = format!("http {peer} {certificate}");
            let length = body.len();
            write!(
                tcp,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            )
        })
    }

    /// Serves on a port a protocol in which the server speaks first.
    pub(crate) fn speak_first(&self, address: &str, port: u16) -> Result<()> {
        self.listen(address, port, |mut tcp| {
            let peer = tcp.peer_addr()?.ip();
            writeln!(tcp, "hello {peer}")
        })
    }

    /// Serves an echo of each line.
    pub(crate) fn echo(&self, address: &str, port: u16) -> Result<()> {
        self.listen(address, port, |mut tcp| {
            let lines = BufReader::new(tcp.try_clone()?).lines();
            for line in lines {
                writeln!(tcp, "{}", line?)?;
            }
            Ok(())
        })
    }

    /// Serves HTTP with the answer that the test chooses.
    pub(crate) fn answer(&self, port: u16) -> Result<Arc<Application>> {
        let application = Arc::new(Application::default());
        let state = Arc::clone(&application);
        self.listen("0.0.0.0", port, move |mut tcp| {
            let mut lines = BufReader::new(tcp.try_clone()?).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            state.requests.fetch_add(1, Ordering::Relaxed);
            let answer = *state.answer.lock().unwrap();
            tcp.write_all(answer.as_bytes())
        })?;
        Ok(application)
    }

    /// Serves gRPC on a port.
    pub(crate) fn serve_grpc(&self, address: &str, port: u16) -> Result<()> {
        let address = SocketAddr::new(address.parse()?, port);
        grpc_application(self.namespace.run(|| TcpListener::bind(address))??);
        Ok(())
    }

    fn listen(
        &self,
        address: &str,
        port: u16,
        serve: impl Fn(TcpStream) -> std::io::Result<()> + Clone + Send + 'static,
    ) -> Result<()> {
        let address = SocketAddr::new(address.parse()?, port);
        let listener = self.namespace.run(|| TcpListener::bind(address))??;
        thread::spawn(move || {
            while let Ok((tcp, _)) = listener.accept() {
                let serve = serve.clone();
                // The client may close early.
                thread::spawn(move || serve(tcp));
            }
        });
        Ok(())
    }

    /// Number of TLS handshakes of inbound connections.
    pub(crate) fn handshakes(&self) -> Result<u64> {
        let stats = self.proxy.get("/stats?filter=listener.*15006.*ssl.handshake")?;
        let counts = stats.lines().filter_map(|line| line.rsplit_once(": ")?.1.parse::<u64>().ok());
        Ok(counts.sum())
    }
}

/// Application of HTTP that counts its requests.
#[derive(Debug, Default)]
pub(crate) struct Application {
    requests: AtomicU64,
    answer: Mutex<&'static str>,
}

impl Application {
    /// Sets the answer to the next requests: the bytes, or none before the connection ends.
    pub(crate) fn answers(&self, answer: &'static str) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Takes the number of requests since the last call.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.swap(0, Ordering::Relaxed)
    }
}

/// Connection that stays open.
pub(crate) struct Held {
    tcp: BufReader<TcpStream>,
    name: &'static str,
}

impl Held {
    /// Connects to an echo.
    pub(crate) fn open(
        name: &'static str,
        pod: &Pod,
        owner: Owner,
        to: (&str, u16),
    ) -> Result<Self> {
        let address = socket(to)?;
        let tcp = pod
            .namespace
            .run_as(owner, || TcpStream::connect_timeout(&address, wait::TIMEOUT))??;
        tcp.set_read_timeout(Some(wait::TIMEOUT))?;
        let mut held = Self { tcp: BufReader::new(tcp), name };
        held.check("at first")?;
        Ok(held)
    }

    /// Sends a line, and reads it back.
    pub(crate) fn check(&mut self, when: &str) -> Result<()> {
        let Self { tcp, name } = self;
        let context = || format!("{name}, {when}");
        writeln!(tcp.get_mut(), "line").with_context(context)?;
        let mut line = String::new();
        tcp.read_line(&mut line).with_context(context)?;
        if line != "line\n" {
            bail!("{name}, {when}: {line:?}");
        }
        Ok(())
    }
}

/// Sends bytes on a new connection, and reads all that comes back.
pub(crate) fn exchange(pod: &Pod, owner: Owner, to: (&str, u16), bytes: &str) -> Result<String> {
    let address = socket(to)?;
    pod.namespace.run_as(owner, || {
        let mut tcp = TcpStream::connect_timeout(&address, wait::TIMEOUT)?;
        tcp.set_read_timeout(Some(wait::TIMEOUT))?;
        tcp.write_all(bytes.as_bytes())?;
        let mut answer = String::new();
        match tcp.read_to_string(&mut answer) {
            Err(error) if answer.is_empty() => bail!("no answer: {error}"),
            _ if answer.is_empty() => bail!("closed without an answer"),
            _ => Ok(answer),
        }
    })?
}

fn socket(to: (&str, u16)) -> Result<SocketAddr> {
    Ok(SocketAddr::new(to.0.parse::<IpAddr>()?, to.1))
}

/// Calls the gRPC application. It answers with the message of its error.
pub(crate) fn call_grpc(pod: &Pod, owner: Owner, to: (&str, u16), host: &str) -> Result<String> {
    let origin = format!("http://{host}:{}", to.1);
    let endpoint = Endpoint::from_shared(format!("http://{}", socket(to)?))?;
    let endpoint =
        endpoint.origin(origin.parse()?).timeout(wait::TIMEOUT).connect_timeout(wait::TIMEOUT);
    pod.namespace.run_as(owner, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut client = AggregatedDiscoveryServiceClient::new(endpoint.connect().await?);
            let requests = tokio_stream::iter([DiscoveryRequest::default()]);
            match client.stream_aggregated_resources(requests).await {
                Ok(_) => bail!("the application has no such answer"),
                Err(status) => Ok(status.message().to_owned()),
            }
        })
    })?
}

/// The user of an application, whose connections are captured.
pub(crate) const APPLICATION: Owner = Owner { uid: 1000, gid: 1000 };
/// The user of the proxy, whose connections are not captured: a client without a sidecar.
pub(crate) const UNCAPTURED: Owner = Owner { uid: 1337, gid: 1337 };
