//! Envoy itself, configured through the relay.

use std::net::SocketAddr;
use std::path::Path;

use e2e::envoy::{self, Ads, Envoy};
use e2e::port::free_port;
use e2e::run_folder::RunFolder;
use pilot_agent::relay::ApplicationHealth;
use pilot_xds::frame::Header;
use pilot_xds::messages::{DeltaDiscoveryRequest, DiscoveryRequest};
use pilot_xds::service::Variant;
use pilot_xds::type_urls::{CLUSTER, LISTENER, NAME_TABLE, PROXY_CONFIG};
use prost::Message;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::within;
use crate::fixture::{Server, ServerStream, VARIANTS, relay_to, response};
use crate::resources;

#[tokio::test]
async fn envoy_reconnects_with_its_versions_and_keeps_serving() {
    for variant in VARIANTS {
        let mut server = Server::start().await;
        let relay = relay_to(server.address);
        relay.application.send_replace(Some(ApplicationHealth::Healthy));
        let bind = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let upstream = echo().await;
        let folder = RunFolder::of_process().unwrap();
        let mut envoy = start(&folder, &relay.socket, variant);

        let mut stream = server.stream().await;
        assert_eq!(stream.variant, variant);
        let versions = configure(&mut stream, bind, upstream).await;
        assert_eq!(versions, ["", ""], "versions of a new Envoy");
        within("the listener", async { while call(bind).await.is_err() {} }).await;

        for _ in 0..2 {
            let address = server.address;
            drop((server, stream));
            for _ in 0..100 {
                call(bind).await.unwrap();
            }
            server = Server::start_at(address).await;
            // Connections go on while Envoy connects again.
            stream = tokio::select! {
                stream = server.stream() => stream,
                () = async { loop { call(bind).await.unwrap() } } => unreachable!(),
            };
            let versions = configure(&mut stream, bind, upstream).await;
            assert_eq!(versions, ["1", "1"], "versions of a reconnecting Envoy");
            for _ in 0..100 {
                call(bind).await.unwrap();
            }
        }
        assert!(envoy.runs());
    }
}

/// Answers Envoy's subscriptions to clusters and listeners, and awaits both ACKs. Returns the
/// versions that Envoy had.
async fn configure(stream: &mut ServerStream, bind: SocketAddr, to: SocketAddr) -> [String; 2] {
    let variant = stream.variant;
    let mut versions = [String::new(), String::new()];
    let mut acknowledged = [false, false];
    while acknowledged != [true, true] {
        let frame = stream.frame().await.expect("Envoy's stream");
        let header = Header::of_request(variant, &frame).unwrap();
        let (index, resource) = match header.type_url {
            CLUSTER => (0, ("upstream", resources::cluster("upstream", to))),
            LISTENER => (1, ("listener", resources::listener("listener", bind, "upstream"))),
            NAME_TABLE | PROXY_CONFIG => continue,
            other if other.ends_with("HealthInformation") => continue,
            other => panic!("Envoy subscribes to {other}"),
        };
        let (version, error) = match variant {
            Variant::Delta => {
                let request = DeltaDiscoveryRequest::decode(&*frame).unwrap();
                let mut versions = request.initial_resource_versions;
                (versions.remove(resource.0), request.error_detail)
            }
            Variant::StateOfTheWorld => {
                let request = DiscoveryRequest::decode(&*frame).unwrap();
                (Some(request.version_info), request.error_detail)
            }
        };
        assert_eq!(error, None);
        if header.nonce.is_empty() {
            versions[index] = version.unwrap_or_default();
            stream.send(response(variant, header.type_url, "n", &[resource])).await;
        } else {
            acknowledged[index] = true;
        }
    }
    versions
}

/// Starts a server that sends back what it receives.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = tcp.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// Exchanges some bytes through Envoy.
async fn call(address: SocketAddr) -> std::io::Result<()> {
    let mut tcp = TcpStream::connect(address).await?;
    tcp.write_all(b"hello").await?;
    let mut answer = [0; 5];
    within("an answer through Envoy", tcp.read_exact(&mut answer)).await?;
    assert_eq!(&answer, b"hello");
    Ok(())
}

/// Starts Envoy with all resources from the relay.
fn start(folder: &RunFolder, socket: &Path, variant: Variant) -> Envoy {
    let ads = match variant {
        Variant::Delta => Ads::Delta,
        Variant::StateOfTheWorld => Ads::StateOfTheWorld,
    };
    let id = "sidecar~127.0.0.1~web-1.shop~shop.svc.cluster.local";
    let node = json!({"id": id, "cluster": "web.shop"});
    let bootstrap = envoy::ads_bootstrap(&node, &envoy::pipe(socket.display()), ads);
    Envoy::start(folder, "envoy", bootstrap).unwrap()
}
