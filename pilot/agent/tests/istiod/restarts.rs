//! istiod is killed again and again while agents hold streams and request certificates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use e2e::wait;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use pilot_xds::client::open;
use pilot_xds::frame::Header;
use pilot_xds::messages::{DeltaDiscoveryResponse, DiscoveryResponse};
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls::{CLUSTER, LISTENER};
use prost::Message;
use tokio::sync::watch;
use tokio_stream::StreamExt;

use crate::agent::Agent;
use crate::client::{Client, within};
use crate::fixture::{Fixture, NAMESPACE};
use crate::relayed::{ack, block_on, istiod, next, service, subscribe, subscription};

pub(crate) fn agents_reconnect_after_ten_kills_of_istiod(fixture: &Fixture) -> Result<()> {
    let agents: Vec<_> = (0..AGENTS)
        .map(|index| Agent::start(fixture, &format!("agent-{index}")))
        .collect::<Result<_>>()?;
    block_on(async {
        for agent in &agents {
            wait::until_async("the relay listens", async || {
                if agent.socket().exists() {
                    Ok(())
                } else {
                    Err(format!("{:?}", agent.readiness()))
                }
            })
            .await?;
        }
        let (seen, mut progress) = watch::channel(BTreeMap::new());
        let seen = Arc::new(seen);
        let mut clients = tokio::task::JoinSet::new();
        for (index, agent) in agents.iter().enumerate() {
            for variant in VARIANTS {
                let key = (index, variant == Variant::Delta);
                clients.spawn(follow(key, agent.socket(), variant, Arc::clone(&seen)));
            }
        }
        let mut before = Vec::new();
        for turn in 0..=KILLS {
            let name = format!("turn-{turn}");
            service(fixture, &name)?;
            let cluster = format!("outbound|80||{name}.{NAMESPACE}.svc.cluster.local");
            let all = |seen: &BTreeMap<_, Bytes>| {
                seen.len() == 2 * AGENTS && seen.values().all(|frame| has(frame, &cluster))
            };
            within("every stream to have the Service", progress.wait_for(all)).await?;
            for agent in &agents {
                is_ready(agent, |text| text == "ready\n").await;
            }
            if turn == 0 {
                for agent in &agents {
                    let requests = agent.metric(REQUESTS)?;
                    before.push((agent.descriptors()?, agent.memory()?, requests));
                }
            }
            if turn == KILLS {
                break;
            }
            // Changes arrive while istiod is killed, gone, and starting.
            service(fixture, &format!("load-{turn}"))?;
            fixture.kill_istiod()?;
            for agent in &agents {
                is_ready(agent, |text| text.contains("control plane: ")).await;
            }
            fixture.restart_istiod()?;
        }
        for (agent, (descriptors, memory, requests)) in agents.iter().zip(before) {
            // A request for a certificate has a connection of its own.
            wait::until_async("no more descriptors than before", async || {
                match agent.descriptors() {
                    Ok(now) if now <= descriptors => Ok(()),
                    now => Err(format!("{now:?}, before {descriptors}")),
                }
            })
            .await?;
            let now = agent.memory()?;
            ensure!(now < memory + LARGEST_GROWTH, "{now} KiB after {memory} KiB");
            let requested = agent.metric(REQUESTS)? - requests;
            ensure!(requested >= 2.0, "{requested} certificates were requested");
        }
        for variant in VARIANTS {
            let direct = direct_clusters(fixture, variant).await?;
            let mut client = Client::open(&agents[0].socket(), variant).await?;
            subscribe(&client, variant, CLUSTER, &[]).await;
            let relayed = clusters(variant, next(&mut client, CLUSTER).await?)?;
            ensure!(
                relayed.len() > 2 * KILLS && relayed == direct,
                "{variant:?}: {relayed:?}, not {direct:?}"
            );
        }
        clients.abort_all();
        Ok(())
    })
}

/// Waits until the text of readiness is as wanted.
async fn is_ready(agent: &Agent, wanted: impl Fn(&str) -> bool) {
    wait::until_async("the text of readiness", async || match agent.readiness() {
        Ok(text) if wanted(&text) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
}

fn has(frame: &[u8], name: &str) -> bool {
    frame.windows(name.len()).any(|found| found == name.as_bytes())
}

/// Keeps a stream open as Envoy does, and publishes the last clusters of each stream.
async fn follow(
    key: (usize, bool),
    socket: PathBuf,
    variant: Variant,
    seen: Arc<watch::Sender<BTreeMap<(usize, bool), Bytes>>>,
) {
    loop {
        if let Ok(mut client) = Client::open(&socket, variant).await {
            subscribe(&client, variant, CLUSTER, &[]).await;
            subscribe(&client, variant, LISTENER, &[]).await;
            while let Ok(Some(frame)) = client.receive().await {
                let Ok(header) = Header::of_response(&frame) else { break };
                if header.type_url == CLUSTER {
                    seen.send_modify(|seen| _ = seen.insert(key, frame.clone()));
                }
                let _ = client.requests.send(ack(variant, &header)).await;
            }
        }
        tokio::time::sleep(BETWEEN_ATTEMPTS).await;
    }
}

/// Returns istiod's clusters without an agent in between.
async fn direct_clusters(fixture: &Fixture, variant: Variant) -> Result<BTreeMap<String, Cluster>> {
    let istiod = istiod(fixture, "istio-ca")?;
    let first = subscription(variant, CLUSTER, &[]);
    let requests = tokio_stream::once(first).chain(tokio_stream::pending());
    let server = istiod.server();
    let requests = server.request(requests)?;
    let channel = server.connect().await?;
    let opened = open(channel.clone(), DiscoveryService::Aggregated, variant, requests).await?;
    let frame = within("clusters", opened.into_inner().message()).await?;
    clusters(variant, frame.context("the stream ended")?)
}

/// Returns the clusters of a response by name.
fn clusters(variant: Variant, frame: Bytes) -> Result<BTreeMap<String, Cluster>> {
    let found = match variant {
        Variant::Delta => {
            let response = DeltaDiscoveryResponse::decode(frame)?;
            // Versions differ by stream.
            response.resources.into_iter().filter_map(|it| it.resource).collect::<Vec<_>>()
        }
        Variant::StateOfTheWorld => DiscoveryResponse::decode(frame)?.resources,
    };
    // Decoded, because istiod encodes maps in random order.
    let decoded = found.into_iter().map(|it| {
        let cluster = Cluster::decode(it.value)?;
        Ok((cluster.name.clone(), cluster))
    });
    decoded.collect()
}

const AGENTS: usize = 10;
const KILLS: usize = 10;
const VARIANTS: [Variant; 2] = [Variant::Delta, Variant::StateOfTheWorld];
const REQUESTS: &str = "istio_agent_num_outgoing_requests_total{request_type=\"csr\"}";
/// In KiB. A leak per stream or certificate would show after ten kills.
const LARGEST_GROWTH: u64 = 2048;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);
