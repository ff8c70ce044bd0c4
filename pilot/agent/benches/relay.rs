//! Cost of one message in the xDS relay.
//!
//! A client exchanges requests and responses with a server, directly and through the relay. Server
//! and relay have a thread each. A round trip is two messages. The kernel counts the CPU time of
//! the relay's thread.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc as blocking};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use pilot_agent::channel::{ChannelOptions, ControlPlane};
use pilot_agent::config::RootSource;
use pilot_agent::health::Health;
use pilot_agent::relay::{Metrics, Relay, RelayOptions};
use pilot_xds::client;
use pilot_xds::messages::{Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};
use pilot_xds::request_stream::RequestStream;
use pilot_xds::server::{DiscoveryHandler, DiscoveryServer};
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls::ENDPOINT;
use prost::Message;
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

fn main() -> Result<()> {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("left out: only `make bench` has what is measured here");
        return Ok(());
    }
    println!(
        "| median of {ROUNDS} | direct µs | relayed µs | added per message µs | \
         CPU per message µs |"
    );
    println!("| --- | --- | --- | --- | --- |");
    for (title, size) in [("1 KiB", 1 << 10), ("16 KiB", 16 << 10), ("1 MiB", 1 << 20)] {
        row(title, size)?;
    }
    Ok(())
}

fn row(title: &str, size: usize) -> Result<()> {
    let folder = TempDir::new()?;
    let socket = folder.path().join("XDS");
    let address = on_a_thread(move |started| serve(size, started))?;
    let relay_socket = socket.clone();
    let task = on_a_thread(move |started| relay(relay_socket, address, started))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = plaintext(address);
    let direct = runtime.block_on(async { exchange(client.server().connect().await?).await })?;
    let before = cpu_time(&task)?;
    let relayed = runtime.block_on(async { exchange(connect(&socket).await?).await })?;
    let used = cpu_time(&task)?.saturating_sub(before);
    let added = relayed.saturating_sub(direct) / 2;
    let cpu = used / (2 * ROUNDS);
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "| response of {title} | {:.0} | {:.0} | {:.0} | {:.0} |",
        micros(direct),
        micros(relayed),
        micros(added),
        micros(cpu)
    );
    Ok(())
}

/// Runs a server on a thread of its own, and returns the value that it reports when it has started.
fn on_a_thread<T: Send + 'static, F: Future<Output = Result<()>>>(
    server: impl FnOnce(blocking::Sender<T>) -> F + Send + 'static,
) -> Result<T> {
    let (started, report) = blocking::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(server(started))
    });
    report.recv().context("a server did not start")
}

/// Server that answers each request with one response.
#[derive(Clone)]
struct Answers(Bytes);

impl DiscoveryHandler for Answers {
    type Responses = BoxStream<'static, Result<Bytes, Status>>;

    async fn open(
        &self,
        _: Variant,
        requests: Request<RequestStream>,
    ) -> Result<Response<Self::Responses>, Status> {
        let response = self.0.clone();
        let responses = stream::try_unfold(requests.into_inner(), move |mut requests| {
            let response = response.clone();
            async move { Ok(requests.message().await?.map(|_| (response, requests))) }
        });
        Ok(Response::new(responses.boxed()))
    }
}

async fn serve(size: usize, started: blocking::Sender<SocketAddr>) -> Result<()> {
    let value = vec![7; size].into();
    let resource = Resource {
        name: "outbound|80||web.shop.svc.cluster.local".to_owned(),
        resource: Some(Any { type_url: ENDPOINT.to_owned(), value }),
        ..Resource::default()
    };
    let response = DeltaDiscoveryResponse {
        resources: vec![resource],
        type_url: ENDPOINT.to_owned(),
        nonce: "1".to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    let answers = Answers(response.encode_to_vec().into());
    let server = DiscoveryServer::new(DiscoveryService::Aggregated, answers, usize::MAX);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    started.send(listener.local_addr()?).context("the benchmark has ended")?;
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let service = TowerToHyperService::new(server.clone());
        let connection =
            http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(tcp), service);
        tokio::spawn(connection);
    }
}

/// Runs the relay, and reports the accounting file of its thread.
async fn relay(
    socket: PathBuf,
    address: SocketAddr,
    started: blocking::Sender<PathBuf>,
) -> Result<()> {
    let options = RelayOptions { socket, shared: false, names: false, additional_roots: false };
    let (_application, receiver) = watch::channel(None);
    let health = Arc::new(Health::default());
    let relay = Relay::new(options, plaintext(address), receiver, health, Metrics::default());
    let listener = relay.listen()?;
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let accounting = PathBuf::from(format!("/proc/self/task/{thread}/schedstat"));
    started.send(accounting).context("the benchmark has ended")?;
    relay.serve(listener).await;
    Ok(())
}

fn plaintext(address: SocketAddr) -> ControlPlane {
    let options = ChannelOptions {
        address: address.to_string(),
        server_name: None,
        root: RootSource::System,
        token: None,
        cluster_id: "Kubernetes".to_owned(),
        headers: Vec::new(),
        plaintext: true,
    };
    ControlPlane::new(options, None)
}

async fn connect(socket: &Path) -> Result<Channel> {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Ok(Endpoint::from_static("http://xds").connect_with_connector(connector).await?)
}

/// Returns the median time of a round trip.
async fn exchange(channel: Channel) -> Result<Duration> {
    let request = DeltaDiscoveryRequest {
        type_url: ENDPOINT.to_owned(),
        response_nonce: "1".to_owned(),
        ..DeltaDiscoveryRequest::default()
    };
    let request = Bytes::from(request.encode_to_vec());
    let (requests, receiver) = mpsc::channel(1);
    let stream = Request::new(ReceiverStream::new(receiver));
    let service = DiscoveryService::Aggregated;
    let opened = client::open(channel.clone(), service, Variant::Delta, stream).await?;
    let mut responses = opened.into_inner();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        requests.send(request.clone()).await?;
        responses.message().await?.context("the stream ended")?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// CPU time of a thread.
fn cpu_time(accounting: &Path) -> Result<Duration> {
    let text = std::fs::read_to_string(accounting)?;
    let nanoseconds = text.split_whitespace().next().context("no time")?.parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

const ROUNDS: u32 = 2_000;
