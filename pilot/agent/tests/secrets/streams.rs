//! SDS streams: names, waiting, protocols, answers.

use std::fs;
use std::time::Duration;

use e2e::wait;
use pilot_agent::secrets::certificate::WorkloadCertificate;
use tonic::Code;

use crate::fixture::TestPod;
use crate::sds_client::{has_root, pair};
use crate::service::{Behaviour, CertificateService};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn certificate_is_requested_before_any_stream() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    wait::until_async("a request", async || {
        if service.requests() == 1 { Ok(()) } else { Err("it has not come") }
    })
    .await
    .unwrap();
    let received = service.state.lock().unwrap().requests[0].clone();
    assert_eq!((received.validity_duration, received.cluster.as_str()), (86_400, "Kubernetes"));

    let mut stream = pod.sds().await.stream(&["default", "ROOTCA"]);
    let certificate = stream.until(|secret| secret.name == "default").await;
    let (chain, key) = pair(&certificate);
    assert!(key.starts_with("-----BEGIN EC PRIVATE KEY-----"), "not SEC 1");
    let now = std::time::SystemTime::now();
    WorkloadCertificate::from_pem(chain.as_bytes(), key.into(), now).unwrap();
    let root = service.state.lock().unwrap().roots[0].root().to_owned();
    let roots = pod.sds().await.fetch(&["ROOTCA"]).await.unwrap();
    assert!(has_root(&roots[0], &root));
    assert!(pod.secrets().identity.borrow().is_some());
    pod.condition_is_cleared().await;
    assert_eq!(service.requests(), 1);
    let metrics = pod.metrics();
    assert!(metrics.contains("istio_agent_num_outgoing_requests_total{request_type=\"csr\"} 1"));
    assert!(metrics.contains("istio_agent_cert_expiry_seconds{resource_name=\"default\"} 86"));
}

#[tokio::test]
async fn waiting_requests_block_no_others() {
    let service = CertificateService::start(&["web"], DAY).await;
    service.set(Behaviour::Slow);
    let mut pod = TestPod::new("web", Some(&service));
    let root = service.state.lock().unwrap().roots[0].root().to_owned();
    fs::write(pod.path("ca.pem"), &root).unwrap();
    pod.start();
    let client = pod.sds().await;
    let mut waiting = client.stream(&["default"]);
    let mut roots = client.stream(&["ROOTCA"]);
    let fetching = tokio::spawn({
        let client = client.clone();
        async move { client.fetch(&["default"]).await }
    });
    let name = format!("file-root:{}", pod.path("ca.pem").display());
    let secrets = client.stream(&[&name]).next().await.unwrap();
    assert!(has_root(&secrets[0], &root));
    assert!(!waiting.has_response() && !roots.has_response());
    service.set(Behaviour::Sign);
    assert_eq!(waiting.next().await.unwrap()[0].name, "default");
    assert_eq!(roots.next().await.unwrap()[0].name, "ROOTCA");
    assert_eq!(fetching.await.unwrap().unwrap()[0].name, "default");
}

#[tokio::test]
async fn unknown_names_are_rejected_with_a_reason() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let client = pod.sds().await;
    let mut working = client.stream(&["default"]);
    working.next().await.unwrap();
    for status in [
        client.stream(&["kubernetes://tls"]).next().await.unwrap_err(),
        client.delta(&["kubernetes://tls"]).next_delta().await.unwrap_err(),
        client.fetch(&["kubernetes://tls"]).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("\"kubernetes://tls\" is not served"), "{status}");
    }
    assert_eq!(client.stream(&["default"]).next().await.unwrap()[0].name, "default");
}

#[tokio::test]
async fn delta_streams_get_changes_by_name() {
    let service = CertificateService::start(&["web"], Duration::from_secs(4)).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let mut stream = pod.sds().await.delta(&["default", "ROOTCA"]);
    let mut names = Vec::new();
    while names.len() < 2 {
        names.extend(stream.next_delta().await.unwrap().into_iter().map(|secret| secret.name));
    }
    names.sort();
    assert_eq!(names, ["ROOTCA", "default"]);
    // The rotation changes the certificate alone.
    let rotated = stream.next_delta().await.unwrap();
    assert_eq!(rotated.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["default"]);
}

#[tokio::test]
async fn answers_are_counted() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let client = pod.sds().await;
    client.stream(&["default"]).next().await.unwrap();
    let mut stream = client.stream(&["ROOTCA"]);
    let response = stream.next_without_ack().await.unwrap();
    stream.request(&response.nonce, Some("cannot load the roots"));
    wait::until_async("both answers", async || {
        let metrics = pod.metrics();
        let ack = "istio_agent_sds_answers_total{resource_name=\"default\",answer=\"ack\"} 1";
        let nack = "istio_agent_sds_answers_total{resource_name=\"ROOTCA\",answer=\"nack\"} 1";
        if metrics.contains(ack) && metrics.contains(nack) { Ok(()) } else { Err(metrics) }
    })
    .await
    .unwrap();
    assert!(!stream.has_response());
}
