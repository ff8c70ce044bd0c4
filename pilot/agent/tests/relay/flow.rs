//! Flow control: large messages, slow readers on either side, and both directions full.

use bytes::Bytes;
use pilot_xds::service::Variant;
use pilot_xds::type_urls::{CLUSTER, ENDPOINT};
use tonic::Code;

use crate::client::within;
use crate::fixture::{Server, VARIANTS, relay_to, request, response};

const MEGABYTE: usize = 1 << 20;

fn large(variant: Variant, index: usize, size: usize) -> Bytes {
    let fill = u8::try_from(index % 251).unwrap();
    response(variant, ENDPOINT, &index.to_string(), &[("a", vec![fill; size])])
}

#[tokio::test]
async fn hundred_megabytes_of_responses_arrive_unchanged() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        let mut client = relay.client(variant).await;
        let stream = server.stream().await;
        assert_eq!(stream.variant, variant);
        // The second is far above tonic's default limit.
        let sizes = [80 * MEGABYTE / 10, 20 * MEGABYTE, 1];
        let sizes = sizes.into_iter().chain(std::iter::repeat_n(MEGABYTE, 72));
        let frames: Vec<_> =
            sizes.enumerate().map(|(index, size)| large(variant, index, size)).collect();
        let sent = frames.clone();
        let sender = tokio::spawn(async move {
            for frame in sent {
                stream.send(frame).await;
            }
            stream
        });
        for (index, frame) in frames.iter().enumerate() {
            assert!(client.frame().await == *frame, "frame {index} differs");
        }
        drop(within("the control plane", sender).await);
        assert!(client.receive().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn slow_envoy_holds_the_control_plane_back() {
    let variant = Variant::Delta;
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let mut client = relay.client(variant).await;
    let stream = server.stream().await;
    let sender = tokio::spawn(async move {
        for index in 0..60 {
            stream.send(large(variant, index, MEGABYTE)).await;
        }
    });
    for index in 0..60_u64 {
        // 8 wait in the relay, one is on its way, the rest is in HTTP/2's windows and buffers.
        let read = relay.metric("istio_agent_xds_proxy_responses");
        assert!(read <= index + 16, "{read} frames in the relay after {index}");
        // The relay takes as many as it can before the next one is read.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        client.frame().await;
    }
    within("the control plane", sender).await.unwrap();
}

#[tokio::test]
async fn slow_control_plane_never_blocks_envoy() {
    let variant = Variant::Delta;
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let mut client = relay.client(variant).await;
    let mut stream = server.stream().await;
    let name = "x".repeat(10_000);
    for _ in 0..2_000 {
        client.send(request(variant, ENDPOINT, &name)).await;
    }
    // 20 MB of requests wait; responses flow.
    stream.send(response(variant, CLUSTER, "1", &[])).await;
    client.frame().await;
    assert!(relay.metric("istio_agent_xds_proxy_queued_requests") > 0);
    for _ in 0..2_000 {
        assert_eq!(stream.delta().await.response_nonce, name);
    }
}

/// Both ends write everything before they read, as in istio#39209.
#[tokio::test]
async fn both_directions_full_is_no_deadlock() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        let mut client = relay.client(variant).await;
        let mut stream = server.stream().await;
        let name = "x".repeat(10_000);
        let control_plane = tokio::spawn(async move {
            for index in 0..60 {
                stream.send(large(variant, index, MEGABYTE)).await;
            }
            for _ in 0..3_000 {
                stream.frame().await.unwrap();
            }
            stream
        });
        for _ in 0..3_000 {
            client.send(request(variant, ENDPOINT, &name)).await;
        }
        for _ in 0..60 {
            client.frame().await;
        }
        within("the control plane", control_plane).await.unwrap();
    }
}

#[tokio::test]
async fn endless_requests_close_the_stream_with_a_reason() {
    let variant = Variant::StateOfTheWorld;
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let mut client = relay.client(variant).await;
    let _unread = server.stream().await;
    let frame = request(variant, ENDPOINT, &"x".repeat(MEGABYTE));
    let requests = client.requests.clone();
    let sender = tokio::spawn(async move { while requests.send(frame.clone()).await.is_ok() {} });
    let status = client.receive().await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "more than 64 MiB of requests wait for the control plane");
    drop(client);
    within("the requests to end", sender).await.unwrap();
}
