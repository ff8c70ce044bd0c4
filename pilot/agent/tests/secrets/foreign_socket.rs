//! SDS sockets of other programs, such as SPIRE's agent.

use std::fs;
use std::time::Duration;

use tokio::net::UnixListener;

use crate::fixture::TestPod;
use crate::service::CertificateService;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn foreign_socket_is_left_alone() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    fs::create_dir(pod.path("uds")).unwrap();
    let foreign = UnixListener::bind(pod.path("uds/socket")).unwrap();
    pod.start();
    assert!(pod.sockets().is_foreign());
    assert_eq!(pod.secrets().envoy_socket, pod.path("uds/socket"));
    // Connections still reach the other program: those above, and this one.
    let _client = tokio::net::UnixStream::connect(pod.path("uds/socket")).await.unwrap();
    foreign.accept().await.unwrap();
    assert_eq!(service.requests(), 0);
    assert!(pod.secrets().identity.borrow().is_none());
}

#[tokio::test]
async fn other_socket_name_leaves_files_to_the_agent() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.settings.options.socket_file = "spire.sock".to_owned();
    fs::create_dir(pod.path("uds")).unwrap();
    let _foreign = UnixListener::bind(pod.path("uds/spire.sock")).unwrap();
    fs::write(pod.path("ca.pem"), &service.root).unwrap();
    pod.start();
    assert_eq!(pod.secrets().envoy_socket, pod.path("uds/spire.sock"));
    let client = pod.sds().await;
    let file = format!("file-root:{}", pod.path("ca.pem").display());
    client.stream(&[&file]).next().await.unwrap();
    for name in ["default", "ROOTCA"] {
        let status = client.stream(&[name]).next().await.unwrap_err();
        assert!(status.message().contains("another program"), "{status}");
    }
    assert_eq!(service.requests(), 0);
}

#[tokio::test]
async fn socket_of_an_ended_agent_is_replaced() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    fs::create_dir(pod.path("uds")).unwrap();
    drop(UnixListener::bind(pod.path("uds/socket")).unwrap());
    pod.start();
    assert!(pod.path("uds/socket").exists());
    pod.sds().await.stream(&["default"]).next().await.unwrap();
}
