//! Ends of streams: either end closes both, and no message crosses streams.

use bytes::Bytes;
use pilot_xds::frame::Header;
use pilot_xds::service::Variant;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT, LISTENER, NAME_TABLE, PROXY_CONFIG, ROUTE};
use tonic::{Code, Status};

use crate::client::Client;
use crate::fixture::{Server, ServerStream, VARIANTS, relay_to, request, response, until};

const TYPES: [&str; 4] = [CLUSTER, ENDPOINT, LISTENER, ROUTE];

/// Exchanges the first `count` messages of a conversation: requests and responses in turn. Each
/// has the number of its stream as nonce.
async fn converse(client: &mut Client, stream: &mut ServerStream, turn: usize, count: usize) {
    let (variant, nonce) = (stream.variant, turn.to_string());
    for message in 0..count {
        let type_url = TYPES[message / 2];
        if message % 2 == 0 {
            let frame = request(variant, type_url, &nonce);
            client.send(frame.clone()).await;
            assert_eq!(next_of_envoy(stream).await, Some(frame));
        } else {
            let frame = response(variant, type_url, &nonce, &[]);
            stream.send(frame.clone()).await;
            assert_eq!(client.frame().await, frame);
        }
    }
}

/// Returns the next request that is not the agent's own.
async fn next_of_envoy(stream: &mut ServerStream) -> Option<Bytes> {
    loop {
        let frame = stream.frame().await?;
        let header = Header::of_request(stream.variant, &frame).unwrap();
        if ![NAME_TABLE, PROXY_CONFIG].contains(&header.type_url) {
            return Some(frame);
        }
    }
}

#[tokio::test]
async fn control_plane_that_fails_at_any_message_ends_the_stream() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        for turn in 0..=2 * TYPES.len() {
            let mut client = relay.client(variant).await;
            let mut stream = server.stream().await;
            converse(&mut client, &mut stream, turn, turn).await;
            let error = Status::resource_exhausted(format!("turn {turn}"));
            stream.responses.send(Err(error)).await.unwrap();
            let status = client.receive().await.unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(status.message(), format!("turn {turn}"));
            let conditions = relay.conditions();
            assert!(conditions[0].contains(&format!("turn {turn}")), "{conditions:?}");
        }
    }
}

#[tokio::test]
async fn control_plane_that_dies_at_any_message_ends_the_stream() {
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    for turn in 0..=2 * TYPES.len() {
        let mut client = relay.client(Variant::Delta).await;
        let mut stream = server.stream().await;
        converse(&mut client, &mut stream, turn, turn).await;
        let address = server.address;
        drop(server);
        client.receive().await.unwrap_err();
        server = Server::start_at(address).await;
    }
}

#[tokio::test]
async fn envoy_that_leaves_at_any_message_ends_the_upstream_stream() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        for turn in 0..=2 * TYPES.len() {
            let mut client = relay.client(variant).await;
            let mut stream = server.stream().await;
            converse(&mut client, &mut stream, turn, turn).await;
            drop(client);
            assert_eq!(next_of_envoy(&mut stream).await, None);
        }
        until("streams to end", || relay.metric("istio_agent_xds_proxy_streams") == 0).await;
        assert_eq!(relay.conditions(), [""; 0]);
    }
}

#[tokio::test]
async fn streams_side_by_side_share_nothing() {
    let variant = Variant::StateOfTheWorld;
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let mut pairs = Vec::new();
    for _ in 0..3 {
        let client = relay.client(variant).await;
        pairs.push((client, server.stream().await));
    }
    for (turn, (client, stream)) in pairs.iter_mut().enumerate() {
        converse(client, stream, turn, 2 * TYPES.len()).await;
    }
    // The end of one leaves the others.
    drop(pairs.remove(0));
    for (turn, (client, stream)) in pairs.iter_mut().enumerate() {
        converse(client, stream, turn, 2).await;
    }
}

#[tokio::test]
async fn unreachable_control_plane_is_reported_at_once() {
    let server = Server::start().await;
    let address = server.address;
    let relay = relay_to(address);
    drop(server);
    // Until the listener is closed, a connection may still be accepted.
    let status = loop {
        let status = relay.client(Variant::Delta).await.receive().await.unwrap_err();
        if status.message().starts_with("connecting to ") {
            break status;
        }
    };
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains(&address.to_string()), "{status}");
    let conditions = relay.conditions();
    assert!(conditions[0].starts_with("no connection to the control plane: "), "{conditions:?}");

    let mut server = Server::start_at(address).await;
    let mut client = relay.client(Variant::Delta).await;
    let mut stream = server.stream().await;
    converse(&mut client, &mut stream, 0, 2).await;
    assert_eq!(relay.conditions(), [""; 0]);
}
