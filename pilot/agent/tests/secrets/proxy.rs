//! Envoys that get certificates from agents: a client's and a server's, with mTLS between them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use e2e::envoy;
use e2e::port::free_port;
use e2e::run_folder::RunFolder;
use e2e::wait;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// An Envoy with a listener.
pub(crate) struct Envoy {
    process: envoy::Envoy,
    pub(crate) port: u16,
}

/// Files of a proxy.
#[derive(Clone, Copy)]
pub(crate) struct ProxyFiles<'a> {
    /// Socket of its agent.
    pub(crate) sds: &'a Path,
    /// SDS name of the certificate.
    pub(crate) certificate: &'a str,
    /// SDS name of the trusted roots.
    pub(crate) roots: &'a str,
}

impl Envoy {
    /// Starts the server's Envoy: mTLS on its port, and an answer to each request.
    pub(crate) async fn server(run: &RunFolder, pod: ProxyFiles<'_>, peer: &str) -> Self {
        let tls = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "require_client_certificate": true,
            "common_tls_context": certificates(pod, peer),
        });
        let route = json!({"match": {"prefix": "/"}, "direct_response": {"status": 200}});
        let socket = json!({"name": "tls", "typed_config": tls});
        Self::start(run, "server", pod, &route, Some(&socket), json!([])).await
    }

    /// Starts the client's Envoy: plaintext on its port, and mTLS to the server.
    ///
    /// Each request takes a new connection.
    pub(crate) async fn client(
        run: &RunFolder,
        pod: ProxyFiles<'_>,
        peer: &str,
        server: u16,
    ) -> Self {
        let tls = json!({
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": certificates(pod, peer),
        });
        let options = json!({
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "common_http_protocol_options": {"max_requests_per_connection": 1},
            "explicit_http_config": {"http_protocol_options": {}},
        });
        let cluster = json!({
            "name": "server", "type": "STATIC", "connect_timeout": "5s",
            "typed_extension_protocol_options":
                {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
            "transport_socket": {"name": "tls", "typed_config": tls},
            "load_assignment": envoy::assignment("server", &address(server)),
        });
        let route = json!({"match": {"prefix": "/"}, "route": {"cluster": "server"}});
        Self::start(run, "client", pod, &route, None, json!([cluster])).await
    }

    async fn start(
        run: &RunFolder,
        name: &str,
        pod: ProxyFiles<'_>,
        route: &Value,
        socket: Option<&Value>,
        mut clusters: Value,
    ) -> Self {
        let port = free_port().unwrap();
        let sds = envoy::http2_cluster("sds-grpc", &envoy::pipe(pod.sds.display()));
        clusters.as_array_mut().unwrap().push(sds);
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "http",
            "route_config":
                {"virtual_hosts": [{"name": "any", "domains": ["*"], "routes": [route]}]},
            "http_filters": [{"name": "router", "typed_config":
                {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
        });
        let mut chain = json!({"filters": [{"name": "http", "typed_config": manager}]});
        if let Some(socket) = socket {
            chain["transport_socket"] = socket.clone();
        }
        let bootstrap = json!({
            "node": {"id": name, "cluster": name},
            "static_resources": {
                "listeners": [{"name": name, "address": address(port), "filter_chains": [chain]}],
                "clusters": clusters,
            },
        });
        let process = envoy::Envoy::start(run, &format!("envoy-{name}"), bootstrap).unwrap();
        let admin = process.admin().port();
        // The agent that Envoy waits for runs in this thread.
        wait::until_async("Envoy is ready", async || match get(admin, "/ready").await {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
        .unwrap();
        Self { process, port }
    }

    /// A page of the admin interface.
    pub(crate) async fn admin(&self, path: &str) -> String {
        get(self.process.admin().port(), path).await.unwrap().1
    }
}

/// TLS settings with both secrets from the agent. The peer is the service account.
fn certificates(pod: ProxyFiles<'_>, peer: &str) -> Value {
    let source = json!({
        "resource_api_version": "V3",
        "initial_fetch_timeout": "0s",
        "api_config_source": {
            "api_type": "GRPC", "transport_api_version": "V3",
            "grpc_services": [{"envoy_grpc": {"cluster_name": "sds-grpc"}}],
        },
    });
    json!({
        "tls_certificate_sds_secret_configs": [{"name": pod.certificate, "sds_config": source}],
        "combined_validation_context": {
            "default_validation_context": {"match_typed_subject_alt_names": [{
                "san_type": "URI",
                "matcher": {"exact": format!("spiffe://cluster.local/ns/shop/sa/{peer}")},
            }]},
            "validation_context_sds_secret_config": {"name": pod.roots, "sds_config": source},
        },
    })
}

fn address(port: u16) -> Value {
    envoy::socket_address(([127, 0, 0, 1], port).into())
}

/// Requests in a loop, until the value is stopped.
pub(crate) struct Load {
    ends: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    pub(crate) fn start(port: u16) -> Self {
        let (ends, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let tasks = (0..2)
            .map(|_| {
                let (ends, answered) = (Arc::clone(&ends), Arc::clone(&answered));
                tokio::spawn(async move {
                    let mut failures = Vec::new();
                    while !ends.load(Ordering::Relaxed) {
                        match get(port, "/").await {
                            Ok((200, _)) => _ = answered.fetch_add(1, Ordering::Relaxed),
                            other => failures.push(format!("{other:?}")),
                        }
                    }
                    failures
                })
            })
            .collect();
        Self { ends, answered, tasks }
    }

    /// Waits until this many more requests have been answered.
    pub(crate) async fn answered_more(&self, count: usize) {
        let goal = self.answered.load(Ordering::Relaxed) + count;
        wait::until_async("more answers", async || {
            let answered = self.answered.load(Ordering::Relaxed);
            let has_failed = self.tasks.iter().any(JoinHandle::is_finished);
            if answered >= goal || has_failed { Ok(()) } else { Err(answered) }
        })
        .await
        .unwrap();
    }

    /// Ends the load. Returns the number of answers, and the failures.
    pub(crate) async fn stop(self) -> (usize, Vec<String>) {
        self.ends.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for task in self.tasks {
            failures.extend(task.await.unwrap());
        }
        (self.answered.load(Ordering::Relaxed), failures)
    }
}

async fn get(port: u16, path: &str) -> Result<(u16, String), String> {
    let error = |error: &dyn std::error::Error| error.to_string();
    let stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(|it| error(&it))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|it| error(&it))?;
    let connection = tokio::spawn(connection);
    let request = http::Request::get(path).header("host", "test").body(Empty::<&[u8]>::new());
    let response = sender.send_request(request.unwrap()).await.map_err(|it| error(&it))?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(|it| error(&it))?.to_bytes();
    connection.abort();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Serial numbers of the certificates that Envoy uses.
pub(crate) async fn serials(envoy: &Envoy) -> Vec<String> {
    let page: Value = serde_json::from_str(&envoy.admin("/certs").await).unwrap();
    let chains = page["certificates"].as_array().unwrap().iter();
    chains
        .filter_map(|it| it["cert_chain"].as_array()?.first().cloned())
        .map(|it| it["serial_number"].as_str().unwrap().to_owned())
        .collect()
}
