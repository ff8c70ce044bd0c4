//! Streams of istiod through the relay.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use e2e::wait;
use pilot_agent::channel::{ChannelOptions, ControlPlane};
use pilot_agent::config::RootSource;
use pilot_agent::health::Health;
use pilot_agent::relay::{Metrics, Relay, RelayOptions};
use pilot_xds::frame::Header;
use pilot_xds::messages::{DeltaDiscoveryRequest, DiscoveryRequest};
use pilot_xds::service::Variant;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, PROXY_CONFIG, ROUTE};
use prost::Message;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tonic::{Code, Status};

use crate::client::{Client, within};
use crate::fixture::{Fixture, NAMESPACE, SERVER_NAME};
use crate::node;
use crate::recorder::Recorder;

pub(crate) fn delta_stream_is_relayed_byte_for_byte(fixture: &Fixture) -> Result<()> {
    compare(fixture, Variant::Delta)
}

pub(crate) fn sotw_stream_is_relayed_byte_for_byte(fixture: &Fixture) -> Result<()> {
    compare(fixture, Variant::StateOfTheWorld)
}

fn compare(fixture: &Fixture, variant: Variant) -> Result<()> {
    let name = if variant == Variant::Delta { "delta" } else { "sotw" };
    service(fixture, name)?;
    let cluster = format!("outbound|80||{name}.{NAMESPACE}.svc.cluster.local");
    block_on(async {
        let (recorder, address) = Recorder::start(istiod(fixture, "istio-ca")?).await?;
        let relay = RunningRelay::to(ControlPlane::new(plaintext(address), None))?;
        let mut client = relay.client(variant).await?;
        let (mut requests, mut responses) = (Vec::new(), Vec::new());
        let types =
            [(CLUSTER, None), (ENDPOINT, Some(&*cluster)), (LISTENER, None), (ROUTE, Some("80"))];
        for (type_url, name) in types {
            let request = subscription(variant, type_url, name.as_slice());
            requests.push(request.clone());
            client.requests.send(request).await?;
            loop {
                let frame = client.receive().await?.context("the stream ended")?;
                let header = Header::of_response(&frame)?;
                let ack = ack(variant, &header);
                let last = header.type_url == type_url;
                responses.push(frame);
                requests.push(ack.clone());
                client.requests.send(ack).await?;
                if last {
                    break;
                }
            }
        }
        let mut names = relay.relay.names();
        within("the name table", names.wait_for(Option::is_some)).await?;
        let of_envoy = |header: Header| ![NAME_TABLE, PROXY_CONFIG].contains(&header.type_url);
        let is_taken = |frame: &Bytes| Header::of_request(variant, frame).is_ok_and(of_envoy);
        // The last ones may be on their way.
        wait::until_async("istiod has every request", async || {
            let count = recorder.frames().requests.iter().filter(|frame| is_taken(frame)).count();
            if count < requests.len() { Err(count) } else { Ok(()) }
        })
        .await?;
        let frames = recorder.frames();
        let sent = frames.responses.iter();
        let sent = sent.filter(|frame| Header::of_response(frame).is_ok_and(of_envoy));
        ensure!(sent.take(responses.len()).eq(&responses), "responses differ");
        let taken = frames.requests.iter().filter(|frame| is_taken(frame));
        ensure!(taken.take(requests.len()).eq(&requests), "requests differ");
        Ok(())
    })
}

pub(crate) fn name_table_has_every_service(fixture: &Fixture) -> Result<()> {
    service(fixture, "named")?;
    block_on(async {
        for variant in [Variant::Delta, Variant::StateOfTheWorld] {
            let relay = RunningRelay::start(fixture, "istio-ca")?;
            let mut client = relay.client(variant).await?;
            subscribe(&client, variant, LISTENER, &[]).await;
            let mut names = relay.relay.names();
            next(&mut client, LISTENER).await?;
            let host = format!("named.{NAMESPACE}.svc.cluster.local");
            let has = |table: &Option<pilot_agent::relay::NameTable>| {
                table.as_ref().is_some_and(|table| table.table.contains_key(&host))
            };
            let table = within("the name table", names.wait_for(has)).await?.clone();
            let table = table.context("no table")?.table;
            let entry = &table[&host];
            ensure!(entry.registry == "Kubernetes" && entry.shortname == "named", "{entry:?}");
            ensure!(entry.namespace == NAMESPACE && entry.ips.len() == 1, "{entry:?}");
            ensure!(table.contains_key("kubernetes.default.svc.cluster.local"), "{table:?}");
            // A Service that comes later.
            let late = format!("late-{}", if variant == Variant::Delta { "delta" } else { "sotw" });
            service(fixture, &late)?;
            let host = format!("{late}.{NAMESPACE}.svc.cluster.local");
            let has = |table: &Option<pilot_agent::relay::NameTable>| {
                table.as_ref().is_some_and(|table| table.table.contains_key(&host))
            };
            within("the new name", names.wait_for(has)).await?;
        }
        Ok(())
    })
}

pub(crate) fn additional_roots_of_the_mesh_arrive(fixture: &Fixture) -> Result<()> {
    block_on(async {
        for variant in [Variant::Delta, Variant::StateOfTheWorld] {
            let relay = RunningRelay::start(fixture, "istio-ca")?;
            let client = relay.client(variant).await?;
            subscribe(&client, variant, LISTENER, &[]).await;
            let mut roots = relay.relay.roots();
            let found =
                within("additional roots", roots.wait_for(|roots| !roots.is_empty())).await?;
            ensure!(
                found.iter().any(|pem| pem.trim() == fixture.additional_root().trim()),
                "{found:?}"
            );
        }
        Ok(())
    })
}

pub(crate) fn rejected_token_is_reported_to_envoy(fixture: &Fixture) -> Result<()> {
    block_on(async {
        let relay = RunningRelay::start(fixture, "another-audience")?;
        let mut client = relay.client(Variant::Delta).await?;
        subscribe(&client, Variant::Delta, CLUSTER, &[]).await;
        let Err(status) = client.receive().await else {
            anyhow::bail!("istiod accepted a token of another audience")
        };
        ensure!(status.code() == Code::Unauthenticated, "{status}");
        let conditions = relay.health.conditions();
        ensure!(conditions[0].1.contains("Unauthenticated"), "{conditions:?}");
        Ok(())
    })
}

/// Creates a Service with an address of the API server's range.
pub(crate) fn service(fixture: &Fixture, name: &str) -> Result<()> {
    let create = ["create", "service", "clusterip", name, "--tcp=80:8080", "-n", NAMESPACE];
    fixture.kubectl().must(create).map(drop)
}

/// Returns a client of istiod with a token of this audience.
pub(crate) fn istiod(fixture: &Fixture, audience: &str) -> Result<ControlPlane> {
    let options = ChannelOptions {
        address: fixture.address(),
        server_name: Some(SERVER_NAME.to_owned()),
        root: RootSource::File(fixture.root().to_owned()),
        token: Some(fixture.token(audience)?),
        cluster_id: "Kubernetes".to_owned(),
        headers: Vec::new(),
        plaintext: false,
    };
    Ok(ControlPlane::new(options, None))
}

fn plaintext(address: SocketAddr) -> ChannelOptions {
    ChannelOptions {
        address: address.to_string(),
        server_name: None,
        root: RootSource::System,
        token: None,
        cluster_id: "Kubernetes".to_owned(),
        headers: Vec::new(),
        plaintext: true,
    }
}

struct RunningRelay {
    relay: Relay,
    health: Arc<Health>,
    socket: PathBuf,
    task: AbortHandle,
    _folder: TempDir,
}

impl RunningRelay {
    fn start(fixture: &Fixture, audience: &str) -> Result<Self> {
        Self::to(istiod(fixture, audience)?)
    }

    fn to(control_plane: ControlPlane) -> Result<Self> {
        let folder = TempDir::new()?;
        let socket = folder.path().join("XDS");
        let options = RelayOptions {
            socket: socket.clone(),
            shared: false,
            names: true,
            additional_roots: true,
        };
        let (_, application) = watch::channel(None);
        let health = Arc::new(Health::default());
        let metrics = Metrics::default();
        let relay = Relay::new(options, control_plane, application, Arc::clone(&health), metrics);
        let listener = relay.listen()?;
        let task = tokio::spawn(relay.clone().serve(listener)).abort_handle();
        Ok(Self { relay, health, socket, task, _folder: folder })
    }

    async fn client(&self, variant: Variant) -> Result<Client, Status> {
        Client::open(&self.socket, variant).await
    }
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the next response of a type.
pub(crate) async fn next(client: &mut Client, type_url: &str) -> Result<Bytes> {
    loop {
        let frame = client.receive().await?.context("the stream ended")?;
        if Header::of_response(&frame)?.type_url == type_url {
            return Ok(frame);
        }
    }
}

pub(crate) async fn subscribe(client: &Client, variant: Variant, type_url: &str, names: &[&str]) {
    // The stream may have ended, which the next response shows.
    let _ = client.requests.send(subscription(variant, type_url, names)).await;
}

/// Returns a subscription. Each has the node, which only the first needs.
pub(crate) fn subscription(variant: Variant, type_url: &str, names: &[&str]) -> Bytes {
    let names = names.iter().copied().map(str::to_owned).collect();
    let (node, type_url) = (Some(node::encoded()), type_url.to_owned());
    match variant {
        Variant::Delta => DeltaDiscoveryRequest {
            node,
            type_url,
            resource_names_subscribe: names,
            ..DeltaDiscoveryRequest::default()
        }
        .encode_to_vec(),
        Variant::StateOfTheWorld => DiscoveryRequest {
            node,
            type_url,
            resource_names: names,
            ..DiscoveryRequest::default()
        }
        .encode_to_vec(),
    }
    .into()
}

/// Returns the ACK of a response.
pub(crate) fn ack(variant: Variant, header: &Header<'_>) -> Bytes {
    let (type_url, response_nonce) = (header.type_url.to_owned(), header.nonce.to_owned());
    match variant {
        Variant::Delta => {
            DeltaDiscoveryRequest { type_url, response_nonce, ..DeltaDiscoveryRequest::default() }
                .encode_to_vec()
        }
        Variant::StateOfTheWorld => {
            DiscoveryRequest { type_url, response_nonce, ..DiscoveryRequest::default() }
                .encode_to_vec()
        }
    }
    .into()
}

/// Runs a case on a runtime like the agent's.
pub(crate) fn block_on(case: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(case)
}
