//! The debug port.

use std::net::SocketAddr;

use pilot_agent::channel::ControlPlane;
use pilot_agent::relay::DebugServer;
use pilot_xds::messages::Node;
use pilot_xds::service::Variant;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Status;

use crate::client::within;
use crate::fixture::{Server, plaintext, response};

async fn start(server: &Server) -> SocketAddr {
    let listener = DebugServer::bind(0).await.unwrap();
    let address = listener.local_addr().unwrap();
    let control_plane = ControlPlane::new(plaintext(server.address), None);
    let debug = DebugServer::new(control_plane, "sidecar~127.0.0.1~a.b~c".to_owned());
    tokio::spawn(debug.serve(listener));
    address
}

/// Returns status line and body.
async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("the debug port", tcp.read_to_string(&mut answer)).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test]
async fn debug_question_is_answered_on_a_stream_of_its_own() {
    let mut server = Server::start().await;
    let address = start(&server).await;
    let control_plane = async {
        let mut stream = server.stream().await;
        let request = stream.sotw().await;
        assert_eq!(request.type_url, "istio.io/debug");
        assert_eq!(request.resource_names, ["config_dump?proxyID=a.b"]);
        let node = Node::decode(request.node.unwrap()).unwrap();
        assert_eq!(node.id, "sidecar~127.0.0.1~a.b~c");
        let parts = [("", b"{}".to_vec()), ("", b"[]".to_vec())];
        stream.send(response(Variant::StateOfTheWorld, "istio.io/debug", "1", &parts)).await;
        assert_eq!(stream.frame().await, None);
        let stream = server.stream().await;
        let denied = Status::permission_denied("not for you");
        stream.responses.send(Err(denied)).await.unwrap();
        // Returned, so that it stays open without an answer.
        server.stream().await
    };
    let client = async {
        let (status, body) = get(address, "/debug/config_dump?proxyID=a.b").await;
        assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "{}\n[]"));
        let (status, body) = get(address, "/debug/syncz").await;
        assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 403 Forbidden", "not for you\n"));
        let (status, _) = get(address, "/debug/silent").await;
        assert_eq!(status, "HTTP/1.1 504 Gateway Timeout");
        let (status, _) = get(address, "/other").await;
        assert_eq!(status, "HTTP/1.1 404 Not Found");
    };
    let (_silent, ()) = tokio::join!(control_plane, client);
}
