//! Changes of the control plane's address.

use pilot_agent::relay::NameTable;
use pilot_xds::service::Variant;
use pilot_xds::type_urls::{LISTENER, NAME_TABLE};
use prost::Message;

use crate::fixture::{
    Server, ServerStream, VARIANTS, plaintext, relay_to, request, response, until,
};
use crate::own_types::table;

async fn send_names(stream: &ServerStream, nonce: &str, ip: &str) {
    let names = response(stream.variant, NAME_TABLE, nonce, &[("", table(ip).encode_to_vec())]);
    stream.send(names).await;
}

#[tokio::test]
async fn names_are_those_of_the_newest_stream() {
    for variant in VARIANTS {
        let (mut first, mut second) = (Server::start().await, Server::start().await);
        let relay = relay_to(first.address);
        let mut names = relay.relay.names();
        let mut expect = async |ip: &str| {
            let expected: Option<NameTable> = Some(table(ip));
            until("the names", || *names.borrow_and_update() == expected).await;
        };
        let old = relay.client(variant).await;
        old.send(request(variant, LISTENER, "")).await;
        let mut old_stream = first.stream().await;
        send_names(&old_stream, "1", "10.0.0.1").await;
        expect("10.0.0.1").await;

        relay.control_plane.set(plaintext(second.address));
        let new = relay.client(variant).await;
        new.send(request(variant, LISTENER, "")).await;
        let new_stream = second.stream().await;
        send_names(&new_stream, "1", "10.0.0.2").await;
        expect("10.0.0.2").await;
        // The old stream goes on, and its answers are acknowledged.
        send_names(&old_stream, "last", "10.0.0.3").await;
        while nonce(&mut old_stream).await != "last" {}
        expect("10.0.0.2").await;

        // Its end says nothing about the control plane of the new one.
        drop(old_stream);
        drop(old);
        until("one stream", || relay.metric("istio_agent_xds_proxy_streams") == 1).await;
        assert_eq!(relay.conditions(), Vec::<String>::new());
    }
}

async fn nonce(stream: &mut ServerStream) -> String {
    match stream.variant {
        Variant::Delta => stream.delta().await.response_nonce,
        Variant::StateOfTheWorld => stream.sotw().await.response_nonce,
    }
}
