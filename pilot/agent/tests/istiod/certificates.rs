//! Certificates of istiod, served to Envoy.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::wait;
use mesh::spiffe::TrustDomain;
use pilot_agent::config::options::KeyAlgorithm;
use pilot_agent::config::{CertificateOptions, Paths, Pod, RootSource};
use pilot_agent::health::Health;
use pilot_agent::secrets::metrics::Metrics;
use pilot_agent::secrets::{self, Secrets, Settings, Timing};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::fixture::{Fixture, NAMESPACE, SERVER_NAME, SERVICE_ACCOUNT};
use crate::proxy::{Envoy, Load, ProxyFiles, serials};
use crate::relayed::block_on;
use crate::sds_client::{SdsClient, has_root};

/// Two Envoys talk mTLS with istiod's certificates while these are rotated.
pub(crate) fn envoys_use_rotated_certificates_of_istiod(fixture: &Fixture) -> Result<()> {
    block_on(async {
        let pod = RunningPod::start(fixture, "istio-ca")?;
        let files =
            ProxyFiles { sds: &pod.secrets.envoy_socket, certificate: "default", roots: "ROOTCA" };
        let server = Envoy::server(fixture.folder(), files, SERVICE_ACCOUNT).await;
        let client = Envoy::client(fixture.folder(), files, SERVICE_ACCOUNT, server.port).await;
        let roots = SdsClient::connect(&pod.secrets.envoy_socket).await.fetch(&["ROOTCA"]).await?;
        ensure!(has_root(&roots[0], &fs::read_to_string(fixture.root())?), "istiod's root");
        let load = Load::start(client.port);
        for envoy in [&server, &client, &server] {
            load.answered_more(50).await;
            let before = serials(envoy).await;
            ensure!(before.len() == 1, "{before:?}");
            wait::until_async("another certificate in use", async || match serials(envoy).await {
                now if now == before => Err(now.join(", ")),
                _ => Ok(()),
            })
            .await?;
        }
        load.answered_more(50).await;
        let (answered, failures) = load.stop().await;
        ensure!(failures.is_empty(), "lost beside {answered}: {failures:?}");
        ensure!(pod.health.conditions().is_empty(), "{:?}", pod.health.conditions());
        Ok(())
    })
}

/// istiod rejects a token of another audience, and accepts the one that replaces it.
pub(crate) fn rejected_token_is_replaced(fixture: &Fixture) -> Result<()> {
    block_on(async {
        let pod = RunningPod::start(fixture, "another-audience")?;
        wait::until_async("the rejection", async || match pod.health.conditions() {
            conditions if conditions.iter().any(|it| it.1.contains("rejects this pod's token")) => {
                Ok(())
            }
            conditions => Err(format!("{conditions:?}")),
        })
        .await?;
        fs::copy(fixture.token("istio-ca")?, pod.folder.path().join("istio-token"))?;
        wait::until_async("a certificate", async || match pod.health.conditions() {
            conditions if conditions.is_empty() => Ok(()),
            conditions => Err(format!("{conditions:?}")),
        })
        .await?;
        ensure!(pod.secrets.identity.borrow().is_some(), "no certificate");
        Ok(())
    })
}

/// A pod of the workload, with the provider of its certificates.
struct RunningPod {
    folder: TempDir,
    secrets: Secrets,
    health: Arc<Health>,
}

impl RunningPod {
    fn start(fixture: &Fixture, audience: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        let at = |name: &str| folder.path().join(name);
        fs::copy(fixture.token(audience)?, at("istio-token"))?;
        let settings = Settings {
            options: CertificateOptions {
                ca_address: fixture.address(),
                ca_root: RootSource::File(fixture.root().to_owned()),
                server_name: Some(SERVER_NAME.to_owned()),
                headers: Vec::new(),
                lifetime: Duration::from_secs(12),
                grace_ratio: 0.5,
                grace_jitter: 0.01,
                key: KeyAlgorithm::EcdsaP256,
                pkcs8: false,
                file_mounted: false,
                provisioned: None,
                output: None,
                socket_file: "socket".to_owned(),
                file_debounce: Duration::from_millis(100),
            },
            pod: Pod {
                name: "web-1".to_owned(),
                namespace: NAMESPACE.to_owned(),
                service_account: SERVICE_ACCOUNT.to_owned(),
                addresses: Vec::new(),
                trust_domain: TrustDomain::parse("cluster.local")?,
                cluster_id: "Kubernetes".to_owned(),
                domain: format!("{NAMESPACE}.svc.cluster.local"),
                node_id: String::new(),
            },
            paths: Paths {
                configuration: at("proxy"),
                pod_info: at("pod"),
                token: at("istio-token"),
                mesh_root: fixture.root().to_owned(),
                crl: at("ca-crl.pem"),
                workload_socket_folder: at("uds"),
                workload_credentials: at("credentials"),
                credential_socket: at("credential-uds/socket"),
            },
            timing: Timing::default(),
        };
        let sockets = secrets::sockets(&settings.options, &settings.paths);
        let (_, roots) = watch::channel(Vec::new());
        let health = Arc::new(Health::default());
        let metrics = Metrics::default();
        let secrets = secrets::start(&settings, &sockets, roots, Arc::clone(&health), metrics)?;
        Ok(Self { folder, secrets, health })
    }
}
