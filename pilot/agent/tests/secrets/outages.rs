//! Errors of the certificate service, each with its own message, and recovery from them.

use std::time::Duration;

use tonic::Status;

use crate::fixture::{TestPod, ca};
use crate::sds_client::pair;
use crate::service::{Behaviour, CertificateService};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn each_error_has_its_message_and_heals() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    let root = service.state.lock().unwrap().roots[0].root().to_owned();
    let texts = |texts: &[&str]| Behaviour::Texts(texts.iter().map(ToString::to_string).collect());
    let refuse = Behaviour::Refuse;
    let errors = [
        (refuse(Status::permission_denied("no such account")), "signs no certificate for this pod"),
        (refuse(Status::invalid_argument("RSA only")), "rejects the certificate signing request"),
        (refuse(Status::internal("disk")), "failed: Internal: disk"),
        (Behaviour::Slow, "gave no answer within 1 s"),
        (Behaviour::OtherKey, "its private key belongs to another certificate"),
        (Behaviour::OtherIdentity, "but this pod is spiffe://cluster.local/ns/shop/sa/web"),
        (Behaviour::Future, "set the node's clock"),
        (Behaviour::OtherAuthority, "its chain does not verify"),
        (texts(&[]), "cannot be used: it is empty"),
        (texts(&["", &root]), "it has no certificate in PEM"),
        (texts(&["garbage", "garbage"]), "the roots in the answer"),
    ];
    service.set(errors[0].0.clone());
    pod.start();
    for (behaviour, message) in errors {
        service.set(behaviour);
        let condition = pod.condition_with(message).await;
        assert!(condition.starts_with("no workload certificate: "), "{condition}");
    }
    // A token is read at each attempt.
    service.set(Behaviour::Sign);
    pod.write("istio-token", "expired");
    pod.condition_with("rejects this pod's token, which may have expired").await;
    std::fs::remove_file(pod.path("istio-token")).unwrap();
    pod.condition_with("istio-token does not exist").await;
    pod.write("istio-token", "token-web");
    pod.condition_is_cleared().await;
    pod.sds().await.stream(&["default"]).next().await.unwrap();
    let metrics = pod.metrics();
    for reason in [
        "permission_denied",
        "invalid_argument",
        "failed",
        "timeout",
        "answer",
        "clock",
        "unauthenticated",
        "token_missing",
    ] {
        assert!(metrics.contains(&format!("reason=\"{reason}\"")), "{reason}: {metrics}");
    }
}

#[tokio::test]
async fn certificate_stays_until_expiry_and_is_replaced_after() {
    let mut service = CertificateService::start(&["web"], Duration::from_secs(4)).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let mut stream = pod.sds().await.stream(&["default"]);
    let first = pair(&stream.next().await.unwrap()[0]);
    service.stop().await;
    let condition = pod.condition_with("cannot be renewed").await;
    assert!(
        condition.contains("valid until") && condition.contains("connecting to"),
        "{condition}"
    );
    let condition = pod.condition_with("the workload certificate expired at").await;
    assert!(condition.contains("connecting to"), "{condition}");
    service.state.lock().unwrap().lifetime = DAY;
    service.resume().await;
    pod.condition_is_cleared().await;
    // Rotations before the outage may have been sent as well.
    let last = stream.until(|secret| pair(secret) != first).await;
    assert_ne!(pair(&last), first);
    assert!(pod.metrics().contains("reason=\"unreachable\""));
}

#[tokio::test]
async fn untrusted_service_gets_no_token() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.write("control-plane.pem", ca("other").root());
    pod.start();
    pod.condition_with("is not trusted").await;
    assert_eq!(service.requests(), 0);
    pod.write("control-plane.pem", &service.root);
    pod.condition_is_cleared().await;
}

#[tokio::test]
async fn certificate_is_rotated_with_a_new_key() {
    let service = CertificateService::start(&["web"], Duration::from_secs(4)).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let mut stream = pod.sds().await.stream(&["default"]);
    let mut pairs = Vec::new();
    while pairs.len() < 3 {
        pairs.push(pair(&stream.next().await.unwrap()[0]));
    }
    assert!(pairs[0] != pairs[1] && pairs[0].1 != pairs[1].1 && pairs[1].1 != pairs[2].1);
    assert_eq!(pod.condition(), "");
}
