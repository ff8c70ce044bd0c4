//! A pod with the agent's certificates.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use e2e::mesh_authority::{MeshAuthority, WorkloadLeaf};
use e2e::wait;
use mesh::spiffe::TrustDomain;
use pilot_agent::config::options::KeyAlgorithm;
use pilot_agent::config::{CertificateOptions, Paths, Pod, RootSource};
use pilot_agent::health::Health;
use pilot_agent::secrets::metrics::Metrics;
use pilot_agent::secrets::schedule::Backoff;
use pilot_agent::secrets::socket::Sockets;
use pilot_agent::secrets::{self, Secrets, Settings, Timing};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::proxy::ProxyFiles;
use crate::sds_client::SdsClient;
use crate::service::{CertificateService, NAME};

/// A pod, and the provider of its certificates.
pub(crate) struct TestPod {
    pub(crate) folder: TempDir,
    pub(crate) settings: Settings,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Metrics,
    /// Roots in the mesh's `ProxyConfig`.
    pub(crate) roots: watch::Sender<Vec<String>>,
    secrets: Option<Secrets>,
}

impl TestPod {
    /// Prepares the pod of a service account, with its token.
    pub(crate) fn new(account: &str, service: Option<&CertificateService>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("istio-token"), format!("token-{account}")).unwrap();
        if let Some(service) = service {
            fs::write(at("control-plane.pem"), &service.root).unwrap();
        }
        let settings = Settings {
            options: CertificateOptions {
                ca_address: service.map_or("127.0.0.1:1".to_owned(), |it| it.address.clone()),
                ca_root: RootSource::File(at("control-plane.pem")),
                server_name: Some(NAME.to_owned()),
                headers: Vec::new(),
                lifetime: Duration::from_secs(24 * 3600),
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
                name: format!("{account}-1"),
                namespace: "shop".to_owned(),
                service_account: account.to_owned(),
                addresses: Vec::new(),
                trust_domain: TrustDomain::parse("cluster.local").unwrap(),
                cluster_id: "Kubernetes".to_owned(),
                domain: "shop.svc.cluster.local".to_owned(),
                node_id: String::new(),
            },
            paths: Paths {
                configuration: at("proxy"),
                pod_info: at("pod"),
                token: at("istio-token"),
                mesh_root: at("root-cert.pem"),
                crl: at("ca-crl.pem"),
                workload_socket_folder: at("uds"),
                workload_credentials: at("credentials"),
                credential_socket: at("credential-uds/socket"),
            },
            timing: Timing {
                request_timeout: Duration::from_secs(1),
                backoff: Backoff {
                    first: Duration::from_millis(50),
                    longest: Duration::from_millis(500),
                },
                root_spread: Duration::from_secs(1),
                output_retry: Duration::from_millis(100),
            },
        };
        Self {
            folder,
            settings,
            health: Arc::default(),
            metrics: Metrics::default(),
            roots: watch::Sender::new(Vec::new()),
            secrets: None,
        }
    }

    /// Starts the provider of certificates.
    pub(crate) fn start(&mut self) {
        let sockets = self.sockets();
        let (health, metrics) = (Arc::clone(&self.health), self.metrics.clone());
        let secrets =
            secrets::start(&self.settings, &sockets, self.roots.subscribe(), health, metrics);
        self.secrets = Some(secrets.unwrap());
    }

    pub(crate) fn sockets(&self) -> Sockets {
        secrets::sockets(&self.settings.options, &self.settings.paths)
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        self.secrets.as_ref().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file as the kubelet does: readers see the old or the new one.
    pub(crate) fn write(&self, name: &str, text: &str) {
        replace(&self.path(name), text);
    }

    /// Files of the pod's Envoy.
    pub(crate) fn proxy_files(&self) -> ProxyFiles<'_> {
        ProxyFiles { sds: &self.secrets().envoy_socket, certificate: "default", roots: "ROOTCA" }
    }

    /// Opens an SDS stream to the agent's socket.
    pub(crate) async fn sds(&self) -> SdsClient {
        SdsClient::connect(&self.path("uds/socket")).await
    }

    /// Condition of the certificate in the readiness text.
    pub(crate) fn condition(&self) -> String {
        self.health.conditions().into_iter().map(|(_, message)| message).collect()
    }

    /// The agent's metrics as text.
    pub(crate) fn metrics(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        self.metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    pub(crate) async fn condition_with(&self, text: &str) -> String {
        wait::until_async(text, async || {
            let condition = self.condition();
            if condition.contains(text) { Ok(condition) } else { Err(condition) }
        })
        .await
        .unwrap()
    }

    pub(crate) async fn condition_is_cleared(&self) {
        wait::until_async("no condition", async || match self.condition() {
            condition if condition.is_empty() => Ok(()),
            condition => Err(condition),
        })
        .await
        .unwrap();
    }
}

/// Creates an authority with a common name.
pub(crate) fn ca(name: &str) -> MeshAuthority {
    MeshAuthority::named(name).unwrap()
}

/// Returns a certificate of a service account.
pub(crate) fn leaf_of(account: &str, lifetime: Duration) -> WorkloadLeaf {
    WorkloadLeaf::new(&format!("spiffe://cluster.local/ns/shop/sa/{account}"), lifetime)
}

/// Writes files as the kubelet mounts them, and replaces them by the link `..data`.
pub(crate) fn mount(folder: &Path, generation: u32, files: &[(&str, &str)]) {
    let name = format!("..generation-{generation}");
    fs::create_dir_all(folder.join(&name)).unwrap();
    for (file, text) in files {
        fs::write(folder.join(&name).join(file), text).unwrap();
        if !folder.join(file).is_symlink() {
            symlink(Path::new("..data").join(file), folder.join(file)).unwrap();
        }
    }
    symlink(&name, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    if generation > 0 {
        let _ = fs::remove_dir_all(folder.join(format!("..generation-{}", generation - 1)));
    }
}

pub(crate) fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}
