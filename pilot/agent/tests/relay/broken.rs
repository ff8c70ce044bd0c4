//! Frames that are no message, and bytes that are no frame.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pilot_xds::service::Variant;
use pilot_xds::type_urls::{CLUSTER, NAME_TABLE};
use tokio::net::TcpListener;
use tonic::Code;

use crate::fixture::{Server, VARIANTS, relay_to, request, response};

#[tokio::test]
async fn truncated_response_ends_only_its_stream() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        let whole = response(variant, CLUSTER, "nonce", &[("c", vec![7; 9])]);
        for length in 1..whole.len() {
            let mut client = relay.client(variant).await;
            let stream = server.stream().await;
            let cut = whole.slice(..length);
            stream.send(cut.clone()).await;
            match client.receive().await {
                // A cut between two fields is a message.
                Ok(frame) => assert_eq!(frame.unwrap(), cut),
                Err(status) => {
                    assert_eq!(status.code(), Code::Internal);
                    assert_eq!(status.message(), "invalid response: the message is truncated");
                }
            }
        }
    }
}

#[tokio::test]
async fn truncated_request_ends_only_its_stream() {
    let variant = Variant::Delta;
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let mut client = relay.client(variant).await;
    let _stream = server.stream().await;
    let whole = request(variant, CLUSTER, "nonce");
    client.send(whole.slice(..whole.len() - 1)).await;
    let status = client.receive().await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "invalid request: the message is truncated");
    let client = relay.client(variant).await;
    let mut stream = server.stream().await;
    client.send(whole.clone()).await;
    assert_eq!(stream.frame().await, Some(whole));
}

/// An own type whose envelope is broken after its header.
#[tokio::test]
async fn undecodable_envelope_of_an_own_type_is_nacked() {
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let _client = relay.client(Variant::Delta).await;
    let mut stream = server.stream().await;
    let mut frame = response(Variant::Delta, NAME_TABLE, "nonce", &[]).to_vec();
    // Field 2, a resource of one byte that is no message.
    frame.extend_from_slice(&[0x12, 1, 0xff]);
    stream.send(frame.into()).await;
    let nack = stream.delta().await;
    assert_eq!((nack.type_url.as_str(), nack.response_nonce.as_str()), (NAME_TABLE, "nonce"));
    assert!(nack.error_detail.unwrap().message.contains("cannot decode"));
}

#[tokio::test]
async fn truncated_grpc_frame_is_an_error_to_envoy() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let service = service_fn(|_| async {
                // A frame of 100 bytes, of which 3 come.
                let body = Bytes::from_static(&[0, 0, 0, 0, 100, 1, 2, 3]);
                let answer = http::Response::builder().header("content-type", "application/grpc");
                Ok::<_, Infallible>(answer.body(Full::new(body)).unwrap())
            });
            let io = TokioIo::new(tcp);
            tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(io, service));
        }
    });
    let relay = relay_to(address);
    let status = relay.client(Variant::Delta).await.receive().await.unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status}");
    server.abort();
}
