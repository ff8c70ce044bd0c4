//! Trust bundle: union of all sources, order of pushes, renewal after changes.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use e2e::wait;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyPair,
    SerialNumber, date_time_ymd,
};

use crate::fixture::{TestPod, ca};
use crate::sds_client::{has_root, issuer, pair};
use crate::service::CertificateService;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn bundle_has_all_sources_and_survives_invalid_ones() {
    let service = CertificateService::start(&["web"], DAY).await;
    let signer = service.state.lock().unwrap().signer.root().to_owned();
    let (mounted, configured) =
        (ca("mounted").root().to_owned(), ca("configured").root().to_owned());
    let mut pod = TestPod::new("web", Some(&service));
    pod.write("root-cert.pem", &mounted);
    pod.roots.send_replace(vec![configured.clone()]);
    pod.start();
    let mut stream = pod.sds().await.stream(&["ROOTCA"]);
    let all = [&signer, &mounted, &configured];
    stream.until(|secret| all.iter().all(|root| has_root(secret, root))).await;

    // Invalid roots drop nothing that is valid, and are reported.
    pod.write("root-cert.pem", "-----BEGIN CERTIFICATE-----\n");
    pod.condition_with("root-cert.pem cannot be used").await;
    pod.roots.send_replace(vec!["garbage".to_owned(), configured.clone()]);
    pod.condition_with("caCertificatesPem is ignored").await;
    fs::remove_file(pod.path("root-cert.pem")).unwrap();
    let secrets = pod.sds().await.stream(&["ROOTCA"]).next().await.unwrap();
    assert!(all.iter().all(|root| has_root(&secrets[0], root)));

    // The signer's root stays although no other source has it.
    let other = ca("other").root().to_owned();
    pod.write("root-cert.pem", &other);
    pod.roots.send_replace(vec![]);
    let last = stream
        .until(|secret| {
            has_root(secret, &other)
                && !has_root(secret, &mounted)
                && !has_root(secret, &configured)
        })
        .await;
    assert!(has_root(&last, &signer));
    pod.condition_is_cleared().await;
}

#[tokio::test]
async fn new_root_precedes_the_certificate() {
    let service = CertificateService::start(&["web"], Duration::from_secs(4)).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let client = pod.sds().await;
    let (mut certificates, mut roots) = (client.stream(&["default"]), client.stream(&["ROOTCA"]));
    certificates.next().await.unwrap();
    roots.next().await.unwrap();
    let old = service.state.lock().unwrap().signer.root().to_owned();
    let new = Arc::new(ca("new"));
    {
        let mut state = service.state.lock().unwrap();
        state.signer = Arc::clone(&new);
        state.roots = vec![Arc::clone(&new)];
    }
    // Rotations by the old signer may still be on their way.
    let pushed = loop {
        let response = roots.next_without_ack().await.unwrap();
        if has_root(&secret(&response), new.root()) {
            break response;
        }
    };
    assert!(has_root(&secret(&pushed), &old), "the old root is dropped too early");
    // Certificates of the old authority may be on their way as well.
    while certificates.has_response() {
        let certificate = certificates.next().await.unwrap().remove(0);
        assert_eq!(issuer(&pair(&certificate).0), "CN=mesh", "it came before the roots");
    }
    roots.request(&pushed.nonce, None);
    certificates.until(|secret| issuer(&pair(secret).0) == "CN=new").await;
    let last = roots.until(|secret| !has_root(secret, &old)).await;
    assert!(has_root(&last, new.root()));
}

#[tokio::test]
async fn loss_of_the_own_root_renews_the_certificate() {
    let service = CertificateService::start(&["web"], DAY).await;
    let old = service.state.lock().unwrap().signer.root().to_owned();
    let new = Arc::new(ca("new"));
    let mut pod = TestPod::new("web", Some(&service));
    pod.write("root-cert.pem", &old);
    pod.start();
    let mut stream = pod.sds().await.stream(&["ROOTCA"]);
    stream.next().await.unwrap();
    {
        let mut state = service.state.lock().unwrap();
        state.signer = Arc::clone(&new);
        state.roots = vec![Arc::clone(&new)];
    }
    pod.write("root-cert.pem", new.root());
    let last = stream.until(|secret| !has_root(secret, &old)).await;
    assert!(has_root(&last, new.root()));
    assert_eq!(service.requests(), 2);
}

#[tokio::test]
async fn added_root_renews_the_certificate() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.roots.send_replace(vec![ca("one").root().to_owned()]);
    pod.start();
    pod.sds().await.stream(&["default"]).next().await.unwrap();
    assert_eq!(service.requests(), 1);
    pod.roots.send_replace(vec![ca("two").root().to_owned()]);
    wait::until_async("a renewal", async || {
        if service.requests() == 2 { Ok(()) } else { Err("it has not come") }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn revocation_list_is_served_with_the_roots() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.write("ca-crl.pem", "");
    pod.start();
    let mut stream = pod.sds().await.stream(&["ROOTCA"]);
    let validation = |secret: &pilot_agent::secrets::messages::Secret| secret.validation.clone();
    let first = stream.next().await.unwrap();
    assert!(validation(&first[0]).unwrap().crl.is_none());
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![rcgen::KeyUsagePurpose::CrlSign];
    let issuer = Issuer::new(parameters, KeyPair::generate().unwrap());
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2026, 1, 1),
        next_update: date_time_ymd(2126, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&issuer).unwrap().pem().unwrap();
    pod.write("ca-crl.pem", &list);
    let served = stream.until(|secret| validation(secret).unwrap().crl.is_some()).await;
    assert_eq!(validation(&served).unwrap().crl.unwrap().inline_bytes, list.as_bytes());
}

fn secret(
    response: &pilot_xds::messages::DiscoveryResponse,
) -> pilot_agent::secrets::messages::Secret {
    prost::Message::decode(response.resources[0].value.clone()).unwrap()
}
