//! Types that the agent handles itself, mixed with Envoy's.

use std::collections::BTreeMap;

use pilot_agent::relay::own_types::ProxyConfig;
use pilot_agent::relay::{ApplicationHealth, NameInfo, NameTable};
use pilot_xds::frame::Header;
use pilot_xds::service::Variant;
use pilot_xds::type_urls::{
    CLUSTER, HEALTH_INFORMATION, LISTENER, NAME_TABLE, PROXY_CONFIG, ROUTE,
};
use prost::Message;

use crate::fixture::{Server, ServerStream, VARIANTS, relay_to, request, response, until};

pub(crate) fn table(ip: &str) -> NameTable {
    let info = NameInfo {
        ips: vec![ip.to_owned()],
        registry: "Kubernetes".to_owned(),
        shortname: "web".to_owned(),
        namespace: "default".to_owned(),
    };
    let table = BTreeMap::from([("web.default.svc.cluster.local".to_owned(), info)]);
    NameTable { table, name_info: None }
}

/// Returns type and nonce of the next request.
async fn header(stream: &mut ServerStream) -> (String, String) {
    let frame = stream.frame().await.unwrap();
    let header = Header::of_request(stream.variant, &frame).unwrap();
    (header.type_url.to_owned(), header.nonce.to_owned())
}

fn of(type_url: &str, nonce: &str) -> (String, String) {
    (type_url.to_owned(), nonce.to_owned())
}

#[tokio::test]
async fn own_types_mixed_with_envoys_stay_in_the_agent() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        let mut client = relay.client(variant).await;
        let mut stream = server.stream().await;
        client.send(request(variant, CLUSTER, "")).await;
        assert_eq!(header(&mut stream).await, of(CLUSTER, ""));
        // Only after the first request for listeners does the agent subscribe, and only once.
        client.send(request(variant, LISTENER, "")).await;
        client.send(request(variant, LISTENER, "1")).await;
        let mut received = Vec::new();
        for _ in 0..4 {
            received.push(header(&mut stream).await);
        }
        let expected =
            [of(LISTENER, ""), of(NAME_TABLE, ""), of(PROXY_CONFIG, ""), of(LISTENER, "1")];
        assert_eq!(received, expected);

        let pem = "-----BEGIN CERTIFICATE-----".to_owned();
        let roots = ProxyConfig { ca_certificates_pem: vec![pem.clone()] };
        let frames = [
            response(variant, CLUSTER, "a", &[("c", vec![1])]),
            response(variant, NAME_TABLE, "b", &[("", table("10.0.0.1").encode_to_vec())]),
            response(variant, LISTENER, "c", &[("l", vec![2])]),
            response(variant, PROXY_CONFIG, "d", &[("", roots.encode_to_vec())]),
            response(variant, NAME_TABLE, "e", &[("", table("10.0.0.2").encode_to_vec())]),
            response(variant, NAME_TABLE, "f", &[("", vec![0x0a, 9])]),
            response(variant, ROUTE, "g", &[]),
        ];
        for frame in &frames {
            stream.send(frame.clone()).await;
        }
        for index in [0, 2, 6] {
            assert_eq!(client.frame().await, frames[index]);
        }
        let mut replies = Vec::new();
        for _ in 0..4 {
            replies.push(header(&mut stream).await);
        }
        let names = |nonce| of(NAME_TABLE, nonce);
        assert_eq!(replies, [names("b"), of(PROXY_CONFIG, "d"), names("e"), names("f")]);
        // The rejected table has changed nothing.
        assert_eq!(*relay.relay.names().borrow(), Some(table("10.0.0.2")));
        assert_eq!(*relay.relay.roots().borrow(), [pem]);
        assert_eq!(relay.metric("istio_agent_xds_proxy_rejected_responses"), 1);
    }
}

#[tokio::test]
async fn names_survive_the_loss_of_the_control_plane() {
    let variant = Variant::Delta;
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let mut client = relay.client(variant).await;
    let stream = server.stream().await;
    let frame = response(variant, NAME_TABLE, "b", &[("", table("10.0.0.1").encode_to_vec())]);
    stream.send(frame).await;
    let mut names = relay.relay.names();
    until("names", || names.borrow_and_update().is_some()).await;
    drop(server);
    client.receive().await.unwrap_err();
    assert_eq!(*names.borrow(), Some(table("10.0.0.1")));
    assert!(!names.has_changed().unwrap());
}

#[tokio::test]
async fn application_health_is_reported_again_after_reconnect() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        relay.application.send_replace(Some(ApplicationHealth::Healthy));
        for turn in 0..3 {
            let client = relay.client(variant).await;
            let mut stream = server.stream().await;
            client.send(request(variant, LISTENER, "")).await;
            for expected in [LISTENER, NAME_TABLE, PROXY_CONFIG, HEALTH_INFORMATION] {
                assert_eq!(header(&mut stream).await, of(expected, ""));
            }
            let reason = format!("HTTP 503 at turn {turn}");
            let unhealthy = ApplicationHealth::Unhealthy(reason.clone());
            relay.application.send_replace(Some(unhealthy));
            let error = match variant {
                Variant::Delta => stream.delta().await.error_detail,
                Variant::StateOfTheWorld => stream.sotw().await.error_detail,
            };
            let error = error.unwrap();
            assert_eq!((error.code, error.message), (13, reason));
        }
    }
}
