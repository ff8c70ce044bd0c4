//! The listener with TLS in this process, with the services that certificates need.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Extension;
use axum::routing::get;
use e2e::api_servers::ApiServers;
use e2e::wait;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PostParams;
use kube::{Api, Client};
use mesh::mesh_config::MeshConfig;
use mesh::spiffe::TrustDomain;
use pilot_discovery::authentication::{Authenticator, Tls, TokenReviewer};
use pilot_discovery::certificates::service::{CertificateService, METHOD};
use pilot_discovery::certificates::{CertificateMetrics, Certificates};
use pilot_discovery::connections::Connections;
use pilot_discovery::debug;
use pilot_discovery::grpc;
use pilot_discovery::identity::Caller;
use pilot_discovery::listener::{self, Limit};
use pilot_discovery::metrics::{Count, Metrics};
use pilot_discovery::publish::{self, Input};
use pilot_discovery::source::Source;
use pilot_registry::files::Directory;
use pilot_registry::manifest::ObjectDefaults;
use pilot_routing::view::MeshView;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use webhook_certs::cluster::{Options, Parameters};

/// A control plane, and the API server behind it.
pub(crate) struct ControlPlane {
    pub(crate) admin: Client,
    pub(crate) address: SocketAddr,
    /// Roots of the namespace `shop`, as its pods mount them.
    pub(crate) roots: String,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<Result<()>>,
}

impl ControlPlane {
    pub(crate) async fn start(servers: &ApiServers) -> Result<Self> {
        let admin = servers.admin(0).await?;
        for name in ["istio-system", "shop"] {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
            Api::<Namespace>::all(admin.clone()).create(&PostParams::default(), &namespace).await?;
        }
        let mut tasks = JoinSet::new();
        let options = Options {
            install: "pilot-discovery".to_owned(),
            service: "istiod".to_owned(),
            secret_name: "pilot-discovery-ca".to_owned(),
            webhook_configurations: Vec::new(),
            root_config_maps: true,
            parameters: Parameters {
                leaf_lifetime: SignedDuration::from_hours(48),
                ..Parameters::default()
            },
            ..Options::default()
        };
        let certificates = Certificates::maintain(admin.clone(), options, None, &mut tasks);
        let mut authority = certificates.authority.clone();
        authority.wait_for(Option::is_some).await?;

        let tokens = TokenReviewer::new(admin.clone(), vec!["istio-ca".to_owned()]);
        let authenticator = Authenticator::new(
            tokens,
            watch::channel(Some(TrustDomain::parse("cluster.local")?)).1,
        );
        let service = CertificateService::new(certificates.clone(), CertificateMetrics::default());
        let source = source()?;
        let pages = debug::authenticated(source.clone(), "istio-system");
        let router = grpc::discovery(source).route_service(METHOD, service).merge(pages).route(
            "/whoami",
            get(async |Extension(caller): Extension<Caller>| format!("{caller:?}")),
        );
        let router = Arc::new(authenticator).protect(router);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let tls = Tls::new(certificates.server_config());
        tasks.spawn(async move {
            let limit = Limit::new("--secureGRPCAddr", 100, Count::default());
            listener::serve(listener, limit, tls, router, stopped).await;
            Ok(())
        });
        let roots = roots(&admin).await?;
        Ok(Self { admin, address, roots, _stop: stop, _tasks: tasks })
    }
}

/// States of a mesh in which the pod `neighbour` of the namespace `shop` has the account of its
/// name.
fn source() -> Result<Source> {
    let queue = publish::start(Metrics::default().triggers)?;
    let neighbour = "apiVersion: v1\nkind: Pod\nmetadata: {name: neighbour, namespace: shop}\n\
        spec: {serviceAccountName: neighbour}\n\
        status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}\n";
    let files = BTreeMap::from([("pod.yaml".to_owned(), neighbour.as_bytes().to_vec())]);
    for event in Directory::new(ObjectDefaults::default()).update(&files).events {
        queue.offer(Input::Registry(Box::new(event)));
    }
    queue.offer(Input::PeerAuthentications(Vec::new()));
    queue.offer(Input::AuthorizationPolicies(Vec::new()));
    let mesh = MeshConfig::parse("").map_err(anyhow::Error::msg)?;
    queue.offer(Input::Mesh(MeshView::new(&mesh)?));
    Ok(Source { queue, connections: Connections::default(), metrics: Metrics::default() })
}

/// Waits for the roots of the namespace `shop`.
async fn roots(admin: &Client) -> Result<String> {
    let maps = Api::<ConfigMap>::namespaced(admin.clone(), "shop");
    let map = wait::until_async("the namespace has roots", async || {
        maps.get_opt("istio-ca-root-cert").await?.context("there is no ConfigMap")
    });
    let roots = map.await?.data.and_then(|mut data| data.remove("root-cert.pem"));
    roots.context("the ConfigMap has no roots")
}
