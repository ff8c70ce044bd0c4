//! Two Envoys with mTLS by mounted files, which the kubelet replaces under load.

use std::path::Path;
use std::time::Duration;

use e2e::run_folder::RunFolder;
use e2e::wait;

use crate::fixture::{TestPod, ca, leaf_of, mount};
use crate::proxy::{Envoy, Load, ProxyFiles, serials};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Replaced files, and Envoys that use them.
struct Mounted<'a> {
    folder: &'a Path,
    /// Names of chain, key and roots.
    names: [&'a str; 3],
    generation: u32,
}

impl Mounted<'_> {
    fn swap(&mut self, chain: &str, key: &str, roots: &str) {
        let files = [(self.names[0], chain), (self.names[1], key), (self.names[2], roots)];
        mount(self.folder, self.generation, &files);
        self.generation += 1;
    }
}

#[tokio::test]
async fn file_secrets_are_replaced_under_mtls_load() {
    let mut pod = TestPod::new("web", None);
    pod.settings.options.file_mounted = true;
    let folder = pod.path("certs");
    let at = |name: &str| folder.join(name).display().to_string();
    let certificate = format!("file-cert:{}~{}", at("tls.crt"), at("tls.key"));
    let roots = format!("file-root:{}", at("ca.crt"));
    let mounted =
        Mounted { folder: &folder, names: ["tls.crt", "tls.key", "ca.crt"], generation: 0 };
    replaced_under_load(&mut pod, mounted, &certificate, &roots).await;
}

#[tokio::test]
async fn mounted_workload_certificate_is_replaced_under_mtls_load() {
    let mut pod = TestPod::new("web", None);
    let folder = pod.path("credentials");
    let names = ["cert-chain.pem", "key.pem", "root-cert.pem"];
    let mounted = Mounted { folder: &folder, names, generation: 0 };
    replaced_under_load(&mut pod, mounted, "default", "ROOTCA").await;
}

/// Replaces certificate and key, then roots and certificate, while each request takes a new
/// connection; a pair that does not match is in between.
async fn replaced_under_load(
    pod: &mut TestPod,
    mut mounted: Mounted<'_>,
    certificate: &str,
    roots: &str,
) {
    let old = ca("old");
    let leaf = leaf_of("web", DAY);
    let pairs = [old.issue(&leaf).unwrap(), old.issue(&leaf).unwrap(), old.issue(&leaf).unwrap()];
    mounted.swap(&pairs[0].0, &pairs[0].1, old.root());
    pod.start();
    let files = ProxyFiles { certificate, roots, ..pod.proxy_files() };
    let run = RunFolder::of_process().unwrap();
    let server = Envoy::server(&run, files, "web").await;
    let client = Envoy::client(&run, files, "web", server.port).await;
    let load = Load::start(client.port);
    load.answered_more(50).await;
    let first = serials(&server).await;

    mounted.swap(&pairs[1].0, &pairs[1].1, old.root());
    let second = renewed(&[&server, &client], &first).await;
    load.answered_more(50).await;

    mounted.swap(&pairs[2].0, &pairs[1].1, old.root());
    pod.condition_with("its private key belongs to another certificate").await;
    load.answered_more(50).await;
    assert_eq!(serials(&server).await, second);
    mounted.swap(&pairs[2].0, &pairs[2].1, old.root());
    let third = renewed(&[&server, &client], &second).await;
    pod.condition_is_cleared().await;

    // A careful administrator replaces the authority in three steps.
    let new = ca("new");
    let both = format!("{}{}", old.root(), new.root());
    mounted.swap(&pairs[2].0, &pairs[2].1, &both);
    for envoy in [&server, &client] {
        has_roots(envoy, 2).await;
    }
    let (chain, key) = new.issue(&leaf).unwrap();
    mounted.swap(&chain, &key, &both);
    renewed(&[&server, &client], &third).await;
    mounted.swap(&chain, &key, new.root());
    for envoy in [&server, &client] {
        has_roots(envoy, 1).await;
    }
    load.answered_more(50).await;
    let (answered, failures) = load.stop().await;
    assert!(failures.is_empty(), "lost beside {answered}: {failures:?}");
    assert_eq!(pod.condition(), "");
}

/// Waits until all Envoys use another certificate. Returns its serial numbers.
async fn renewed(envoys: &[&Envoy], before: &[String]) -> Vec<String> {
    let mut now = Vec::new();
    for envoy in envoys {
        now =
            wait::until_async("another certificate in use", async || match serials(envoy).await {
                now if now == before => Err(now.join(", ")),
                now => Ok(now),
            })
            .await
            .unwrap();
    }
    now
}

/// Waits until Envoy trusts this number of roots.
async fn has_roots(envoy: &Envoy, count: usize) {
    wait::until_async("the roots in use", async || {
        let page: serde_json::Value = serde_json::from_str(&envoy.admin("/certs").await).unwrap();
        let found = page["certificates"].as_array().unwrap().iter();
        let roots: Vec<_> = found.filter_map(|it| it["ca_cert"].as_array()).flatten().collect();
        if roots.len() == count { Ok(()) } else { Err(page) }
    })
    .await
    .unwrap();
}
