//! The relay's Unix socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use pilot_agent::channel::{ChannelOptions, ControlPlane};
use pilot_agent::config::RootSource;
use pilot_agent::relay::{Metrics, Relay, RelayError, RelayOptions};
use pilot_xds::service::Variant;
use tempfile::TempDir;
use tokio::sync::watch;
use tonic::Code;

use crate::client::Client;
use crate::fixture::{Server, relay_to};

fn relay(folder: &TempDir, shared: bool) -> Relay {
    let socket = folder.path().join("proxy/XDS");
    let options = RelayOptions { socket, shared, names: false, additional_roots: false };
    let control_plane = ControlPlane::new(
        ChannelOptions {
            address: "127.0.0.1:1".to_owned(),
            server_name: None,
            root: RootSource::System,
            token: None,
            cluster_id: "Kubernetes".to_owned(),
            headers: Vec::new(),
            plaintext: true,
        },
        None,
    );
    let (_, application) = watch::channel(None);
    Relay::new(options, control_plane, application, Arc::default(), Metrics::default())
}

#[tokio::test]
async fn stale_socket_is_replaced() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("proxy/XDS");
    fs::create_dir(folder.path().join("proxy")).unwrap();
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    for (shared, mode) in [(false, 0o600), (true, 0o666)] {
        drop(relay(&folder, shared).listen().unwrap());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[tokio::test]
async fn socket_of_a_running_agent_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let _running = relay(&folder, false).listen().unwrap();
    let error = relay(&folder, false).listen().unwrap_err();
    assert!(matches!(error, RelayError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn streams_are_limited() {
    let mut server = Server::start().await;
    let relay = relay_to(server.address);
    let mut open = Vec::new();
    for _ in 0..100 {
        let client = relay.client(Variant::Delta).await;
        open.push((client, server.stream().await));
    }
    let status = Client::open(&relay.socket, Variant::Delta).await.err().unwrap();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "100 streams are open; close one first");
}
