//! Everything at once: own types, large messages, full directions, streams that break off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use e2e::random::{Random, seed};
use pilot_agent::relay::NameTable;
use pilot_xds::frame::Header;
use pilot_xds::service::Variant;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, PROXY_CONFIG};
use prost::Message;
use tonic::Status;

use crate::client::{Client, within};
use crate::fixture::{Server, ServerStream, VARIANTS, relay_to, request, response, until};
use crate::own_types::table;

const MEGABYTE: usize = 1 << 20;

#[tokio::test]
async fn message_of_100_megabytes_arrives_unchanged() {
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let mut client = relay.client(Variant::Delta).await;
    let stream = server.stream().await;
    let frame = response(Variant::Delta, ENDPOINT, "1", &[("a", vec![7; 100 * MEGABYTE])]);
    stream.send(frame.clone()).await;
    assert!(client.frame().await == frame);
}

/// Both ends write everything before they read, and names are between Envoy's resources.
#[tokio::test]
async fn own_types_arrive_through_full_directions() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        let mut client = relay.client(variant).await;
        let mut stream = server.stream().await;
        client.send(request(variant, LISTENER, "")).await;
        let frames: Vec<_> = (0..40)
            .map(|index| {
                response(variant, ENDPOINT, &index.to_string(), &[("a", vec![7; MEGABYTE])])
            })
            .collect();
        let sent = frames.clone();
        let reads = Arc::new(AtomicBool::new(false));
        let client_reads = Arc::clone(&reads);
        let control_plane = tokio::spawn(async move {
            for (index, frame) in sent.into_iter().enumerate() {
                stream.send(frame).await;
                if index % 10 == 9 {
                    stream.send(names(variant, &format!("names-{index}"), index)).await;
                }
            }
            assert!(client_reads.load(Ordering::Relaxed), "nothing held the control plane back");
            let (mut of_envoy, mut of_agent) = (0, Vec::new());
            while of_envoy < 3_001 || of_agent.len() < 6 {
                let frame = stream.frame().await.unwrap();
                let header = Header::of_request(variant, &frame).unwrap();
                if [NAME_TABLE, PROXY_CONFIG].contains(&header.type_url) {
                    of_agent.push(header.nonce.to_owned());
                } else {
                    of_envoy += 1;
                }
            }
            (stream, of_agent)
        });
        let name = "x".repeat(10_000);
        for _ in 0..3_000 {
            client.send(request(variant, ENDPOINT, &name)).await;
        }
        reads.store(true, Ordering::Relaxed);
        for (index, frame) in frames.iter().enumerate() {
            assert!(client.frame().await == *frame, "frame {index} differs");
        }
        let (_stream, of_agent) = within("the control plane", control_plane).await.unwrap();
        // Subscriptions, then an ACK for each table.
        assert_eq!(of_agent, ["", "", "names-9", "names-19", "names-29", "names-39"]);
        let last = Some(table("10.0.0.39"));
        until("the last names", || *relay.relay.names().borrow() == last).await;
    }
}

/// Each stream has bursts in both directions with own types among them, and breaks off in a burst.
#[tokio::test]
async fn bursts_of_broken_streams_reach_no_other_stream() {
    let seed = seed();
    let mut random = Random::new(seed, "relay");
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        for turn in 0..30 {
            let mut client = relay.client(variant).await;
            let mut stream = server.stream().await;
            client.send(request(variant, LISTENER, "")).await;
            assert_eq!(envoys(&mut stream, 1).await.len(), 1);
            for burst in 0..random.roll(4) {
                let tag = format!("{turn}-{burst}");
                exchange(&mut client, &mut stream, &tag, &mut random, seed).await;
            }
            let tag = format!("{turn}-unread");
            let requests = frames_of_envoy(variant, &tag, &mut random);
            let sender = client.requests.clone();
            let unread = tokio::spawn(async move {
                for frame in requests {
                    // The stream may end meanwhile.
                    let _ = sender.send(frame).await;
                }
            });
            let _ = stream.responses.try_send(Ok(response(variant, CLUSTER, &tag, &[])));
            match random.roll(3) {
                0 => drop(client),
                1 => {
                    let error = Err(Status::internal("broken"));
                    within("the relay to read", stream.responses.send(error)).await.unwrap();
                    while let Ok(Some(_)) = client.receive().await {}
                }
                _ => {
                    let address = server.address;
                    drop(server);
                    while let Ok(Some(_)) = client.receive().await {}
                    server = Server::start_at(address).await;
                }
            }
            within("the burst to end", unread).await.unwrap();
        }
        until("streams to end", || relay.metric("istio_agent_xds_proxy_streams") == 0).await;
        until("queues to empty", || relay.metric("istio_agent_xds_proxy_queued_requests") == 0)
            .await;
    }
}

/// Sends a burst in each direction at the same time, and compares what arrives.
async fn exchange(
    client: &mut Client,
    stream: &mut ServerStream,
    tag: &str,
    random: &mut Random,
    seed: u64,
) {
    let variant = stream.variant;
    let requests = frames_of_envoy(variant, tag, random);
    let mut responses = Vec::new();
    let mut expected = Vec::new();
    for _ in 0..random.roll(20) {
        if random.roll(3) == 0 {
            responses.push(names(variant, tag, 7));
        } else {
            let frame = response(variant, ENDPOINT, tag, &[("a", content(random))]);
            responses.push(frame.clone());
            expected.push(frame);
        }
    }
    let (to_server, to_client) = (client.requests.clone(), stream.responses.clone());
    let writes = async {
        for frame in requests.clone() {
            to_server.send(frame).await.unwrap();
        }
    };
    let answers = async {
        for frame in responses {
            to_client.send(Ok(frame)).await.unwrap();
        }
    };
    let reads = async {
        for frame in &expected {
            assert!(client.frame().await == *frame, "another response; seed {seed}");
        }
    };
    let arrived = async {
        let arrived = envoys(stream, requests.len()).await;
        assert!(arrived == requests, "other requests; seed {seed}");
    };
    within("the burst", async { tokio::join!(writes, answers, reads, arrived) }).await;
}

/// Returns the next requests that are not the agent's own.
async fn envoys(stream: &mut ServerStream, count: usize) -> Vec<Bytes> {
    let mut found = Vec::new();
    while found.len() < count {
        let frame = stream.frame().await.unwrap();
        let header = Header::of_request(stream.variant, &frame).unwrap();
        if ![NAME_TABLE, PROXY_CONFIG].contains(&header.type_url) {
            found.push(frame);
        }
    }
    found
}

fn frames_of_envoy(variant: Variant, tag: &str, random: &mut Random) -> Vec<Bytes> {
    let mut frame = || {
        let nonce = format!("{tag}{}", "x".repeat(content(random).len()));
        request(variant, ENDPOINT, &nonce)
    };
    (0..20).map(|_| frame()).collect()
}

/// Returns small or large content.
fn content(random: &mut Random) -> Vec<u8> {
    let limit = [10, 10_000, 300_000][usize::try_from(random.roll(3)).unwrap()];
    vec![7; usize::try_from(random.roll(limit)).unwrap()]
}

fn names(variant: Variant, nonce: &str, number: usize) -> Bytes {
    let table: NameTable = table(&format!("10.0.0.{number}"));
    response(variant, NAME_TABLE, nonce, &[("", table.encode_to_vec())])
}
