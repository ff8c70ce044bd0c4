//! Certificates, keys and roots in files of the pod.

use std::path::Path;
use std::time::Duration;

use crate::fixture::{TestPod, ca, leaf_of, mount};
use crate::sds_client::{has_root, pair, roots};
use crate::service::CertificateService;
use e2e::wait;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn files_follow_swaps_of_the_mount() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    let authority = ca("files");
    let folder = pod.path("certs");
    let leaf = leaf_of("gateway", DAY);
    let pairs: Vec<_> = (0..3).map(|_| authority.issue(&leaf).unwrap()).collect();
    let swap = |generation, chain: &str, key: &str| {
        let files = [("tls.crt", chain), ("tls.key", key), ("ca.crt", authority.root())];
        mount(&folder, generation, &files);
    };
    swap(0, &pairs[0].0, &pairs[0].1);
    pod.start();
    let at = |name: &str| folder.join(name).display().to_string();
    let certificate = format!("file-cert:{}~{}", at("tls.crt"), at("tls.key"));
    let root = format!("file-root:{}", at("ca.crt"));
    let client = pod.sds().await;
    let mut stream = client.stream(&[&certificate]);
    assert_eq!(pair(&stream.next().await.unwrap()[0]), pairs[0]);
    let served = client.stream(&[&root]).next().await.unwrap();
    assert!(has_root(&served[0], authority.root()));

    swap(1, &pairs[1].0, &pairs[1].1);
    assert_eq!(pair(&stream.next().await.unwrap()[0]), pairs[1]);
    // A key of another certificate: the last good pair stays.
    swap(2, &pairs[2].0, &pairs[1].1);
    let condition = pod.condition_with("its private key belongs to another certificate").await;
    assert!(condition.contains(&certificate), "{condition}");
    assert_eq!(pair(&client.stream(&[&certificate]).next().await.unwrap()[0]), pairs[1]);
    swap(3, &pairs[2].0, &pairs[2].1);
    assert_eq!(pair(&stream.next().await.unwrap()[0]), pairs[2]);
    pod.condition_is_cleared().await;
    assert!(pod.metrics().contains("istio_agent_num_file_secret_failures_total 1"));
}

#[tokio::test]
async fn missing_files_are_awaited_and_forgotten_with_their_stream() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let client = pod.sds().await;
    let root = format!("file-root:{}", pod.path("late.pem").display());
    let mut stream = client.stream(&[&root]);
    pod.condition_with("late.pem: No such file").await;
    let authority = ca("late");
    pod.write("late.pem", authority.root());
    assert!(has_root(&stream.next().await.unwrap()[0], authority.root()));
    pod.condition_is_cleared().await;
    drop(stream);
    let other = ca("other");
    pod.write("late.pem", other.root());
    // A later stream gets the file of its time.
    wait::until_async("the new file", async || {
        let secrets = client.stream(&[&root]).next().await.unwrap();
        if has_root(&secrets[0], other.root()) { Ok(()) } else { Err("the old file") }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn system_roots_are_served_by_their_path() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.start();
    let secrets = pod.sds().await.stream(&["file-root:system"]).next().await.unwrap();
    let file = secrets[0].validation.clone().unwrap().trusted_ca.unwrap().filename;
    assert!(Path::new(&file).is_file(), "{file}");
}

#[tokio::test]
async fn mounted_workload_certificate_is_served_and_followed() {
    let mut pod = TestPod::new("web", None);
    let authority = ca("mounted");
    let leaf = leaf_of("web", DAY);
    let pairs = [authority.issue(&leaf).unwrap(), authority.issue(&leaf).unwrap()];
    let swap = |generation, (chain, key): &(String, String), root: &str| {
        let files = [("cert-chain.pem", &**chain), ("key.pem", key), ("root-cert.pem", root)];
        mount(&pod.path("credentials"), generation, &files);
    };
    swap(0, &pairs[0], authority.root());
    let swap_later = |generation, pair: &(String, String), root: &str, folder: &Path| {
        let files = [("cert-chain.pem", &*pair.0), ("key.pem", &*pair.1), ("root-cert.pem", root)];
        mount(&folder.join("credentials"), generation, &files);
    };
    pod.start();
    let client = pod.sds().await;
    let mut stream = client.stream(&["default"]);
    assert_eq!(pair(&stream.next().await.unwrap()[0]).1, pairs[0].1);
    let served = client.stream(&["ROOTCA"]).next().await.unwrap();
    assert!(has_root(&served[0], authority.root()), "{}", roots(&served[0]));
    swap_later(1, &pairs[1], authority.root(), pod.folder.path());
    assert_eq!(pair(&stream.next().await.unwrap()[0]).1, pairs[1].1);
    assert!(!pod.metrics().contains("request_type"), "the service was asked");
}

#[tokio::test]
async fn file_mode_requests_no_certificate() {
    let service = CertificateService::start(&["web"], DAY).await;
    let mut pod = TestPod::new("web", Some(&service));
    pod.settings.options.file_mounted = true;
    pod.start();
    let status = pod.sds().await.stream(&["default"]).next().await.unwrap_err();
    assert!(status.message().contains("FILE_MOUNTED_CERTS"), "{status}");
    assert_eq!(service.requests(), 0);
}

#[tokio::test]
async fn provisioned_certificate_authenticates_instead_of_the_token() {
    let service = CertificateService::start(&["web"], Duration::from_secs(4)).await;
    let mut pod = TestPod::new("web", Some(&service));
    let folder = pod.path("provisioned");
    pod.settings.options.provisioned = Some(folder.clone());
    pod.start();
    pod.condition_with("no certificate for the certificate service (PROV_CERT)").await;
    assert_eq!(service.requests(), 0);
    let (chain, key) = service.clients.issue(&leaf_of("web", DAY)).unwrap();
    mount(&folder, 0, &[("cert-chain.pem", &chain), ("key.pem", &key)]);
    let mut stream = pod.sds().await.stream(&["default"]);
    stream.next().await.unwrap();
    stream.next().await.unwrap();
    pod.condition_is_cleared().await;
}
