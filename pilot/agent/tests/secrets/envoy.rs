//! Rotation and replacement of the CA under load, with mTLS between two real Envoys.

use std::sync::Arc;
use std::time::Duration;

use e2e::run_folder::RunFolder;
use e2e::wait;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::fixture::{TestPod, ca};
use crate::proxy::{Envoy, Load, serials};
use crate::sds_client::has_root;
use crate::service::CertificateService;
use e2e::mesh_authority::MeshAuthority;

const ACCOUNTS: [&str; 2] = ["web-server", "web-client"];

/// Two pods with their Envoys, and load between them.
struct Mesh {
    service: CertificateService,
    pods: [TestPod; 2],
    envoys: [Envoy; 2],
    load: Load,
    _run: RunFolder,
}

impl Mesh {
    async fn start(lifetime: Duration) -> Self {
        let service = CertificateService::start(&ACCOUNTS, lifetime).await;
        let root = service.state.lock().unwrap().signer.root().to_owned();
        let pods = ACCOUNTS.map(|account| {
            let mut pod = TestPod::new(account, Some(&service));
            pod.write("root-cert.pem", &root);
            pod.start();
            pod
        });
        let run = RunFolder::of_process().unwrap();
        let server = Envoy::server(&run, pods[0].proxy_files(), ACCOUNTS[1]).await;
        let client = Envoy::client(&run, pods[1].proxy_files(), ACCOUNTS[0], server.port).await;
        let load = Load::start(client.port);
        load.answered_more(50).await;
        Self { service, pods, envoys: [server, client], load, _run: run }
    }

    /// Ends the load; no request may have been lost.
    async fn finish(self) {
        let rejected = [
            self.envoys[0].admin("/stats?filter=ssl.fail").await,
            self.envoys[1].admin("/stats?filter=ssl.fail").await,
        ];
        let (answered, failures) = self.load.stop().await;
        assert!(
            failures.is_empty(),
            "{} of {answered} lost: {failures:?} {rejected:?}",
            failures.len()
        );
    }
}

#[tokio::test]
async fn rotation_of_the_leaf_loses_no_request() {
    let mesh = Mesh::start(Duration::from_secs(12)).await;
    for envoy in &mesh.envoys {
        for _ in 0..2 {
            let before = serials(envoy).await;
            wait::until_async("another certificate in use", async || match serials(envoy).await {
                now if now == before => Err(now.join(", ")),
                _ => Ok(()),
            })
            .await
            .unwrap();
            mesh.load.answered_more(50).await;
        }
    }
    mesh.finish().await;
}

#[tokio::test]
async fn replacement_of_the_ca_loses_no_request() {
    let mesh = Mesh::start(Duration::from_secs(12)).await;
    let old = Arc::clone(&mesh.service.state.lock().unwrap().signer);
    let new = Arc::new(ca("new"));
    let both = format!("{}{}", old.root(), new.root());

    // 1: both roots are trusted, the old authority signs.
    mesh.service.state.lock().unwrap().roots = vec![Arc::clone(&old), Arc::clone(&new)];
    for pod in &mesh.pods {
        pod.write("root-cert.pem", &both);
        trusts(pod, &[&old, &new], &[]).await;
    }
    mesh.load.answered_more(50).await;

    // 2: the new authority signs, with the next rotation.
    mesh.service.state.lock().unwrap().signer = Arc::clone(&new);
    for pod in &mesh.pods {
        wait::until_async("a certificate of the new authority", async || {
            let identity = pod.secrets().identity.borrow().clone().unwrap();
            let (_, parsed) = X509Certificate::from_der(&identity.cert[0]).unwrap();
            let issuer = parsed.issuer().to_string();
            if issuer == "CN=new" { Ok(()) } else { Err(issuer) }
        })
        .await
        .unwrap();
    }
    mesh.load.answered_more(50).await;

    // 3: the new root alone is trusted.
    mesh.service.state.lock().unwrap().roots = vec![Arc::clone(&new)];
    for pod in &mesh.pods {
        pod.write("root-cert.pem", new.root());
        trusts(pod, &[&new], &[&old]).await;
    }
    mesh.load.answered_more(50).await;
    mesh.finish().await;
}

/// Waits until a pod's Envoy trusts the former authorities and not the latter.
async fn trusts(pod: &TestPod, trusted: &[&MeshAuthority], untrusted: &[&MeshAuthority]) {
    wait::until_async("the roots", async || {
        let roots = pod.sds().await.stream(&["ROOTCA"]).next().await.unwrap().remove(0);
        let has = |authority: &&MeshAuthority| has_root(&roots, authority.root());
        if trusted.iter().all(has) && !untrusted.iter().any(has) {
            Ok(())
        } else {
            Err(pod.condition())
        }
    })
    .await
    .unwrap();
}
