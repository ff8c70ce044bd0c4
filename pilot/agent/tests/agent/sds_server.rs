//! SDS server of another program, in the place of SPIRE's agent.

use std::fs;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use e2e::mesh_authority::{MeshAuthority, WorkloadLeaf};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use pilot_agent::secrets::messages::{DataSource, Secret, TlsCertificate, ValidationContext};
use pilot_xds::messages::{DiscoveryRequest, DiscoveryResponse};
use pilot_xds::request_stream::RequestStream;
use pilot_xds::server::{DiscoveryHandler, DiscoveryServer};
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls::SECRET;
use prost::Message;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// SDS server. It ends with the value, and leaves its socket behind as a killed program does.
pub(crate) struct SdsServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SdsServer {
    /// Serves a new certificate of a service account, `default`, and the root, `ROOTCA`.
    pub(crate) fn start(socket: &Path, authority: &MeshAuthority, account: &str) -> Result<Self> {
        let identity = format!("spiffe://cluster.local/ns/shop/sa/{account}");
        let (chain, key) =
            authority.issue(&WorkloadLeaf::new(&identity, Duration::from_secs(3600)))?;
        let certificate = TlsCertificate {
            chain: Some(DataSource::inline(chain)),
            key: Some(DataSource::inline(key)),
        };
        let roots = DataSource::inline(authority.root().to_owned());
        let handler = Handler {
            certificate: Secret {
                name: "default".to_owned(),
                certificate: Some(certificate),
                ..Secret::default()
            },
            roots: Secret {
                name: "ROOTCA".to_owned(),
                validation: Some(ValidationContext { trusted_ca: Some(roots), crl: None }),
                ..Secret::default()
            },
        };
        // The socket of an ended program.
        let _ = fs::remove_file(socket);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            UnixListener::bind(socket).with_context(|| format!("binding {}", socket.display()))?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = handler.serve(listener) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for SdsServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Handler {
    certificate: Secret,
    roots: Secret,
}

impl Handler {
    async fn serve(self, listener: UnixListener) {
        let service = DiscoveryServer::new(DiscoveryService::Secret, self, usize::MAX);
        let service = TowerToHyperService::new(service);
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service.clone());
            connections.spawn(connection);
        }
    }

    fn response(&self, request: &DiscoveryRequest) -> DiscoveryResponse {
        let secrets = [&self.certificate, &self.roots].into_iter();
        let named = secrets.filter(|secret| request.resource_names.contains(&secret.name));
        DiscoveryResponse {
            version_info: "1".to_owned(),
            resources: named.map(Secret::to_any).collect(),
            type_url: SECRET.to_owned(),
            nonce: "1".to_owned(),
        }
    }
}

impl DiscoveryHandler for Handler {
    type Responses = ReceiverStream<Result<Bytes, Status>>;

    async fn open(
        &self,
        _: Variant,
        requests: Request<RequestStream>,
    ) -> Result<Response<Self::Responses>, Status> {
        let (responses, receiver) = mpsc::channel(1);
        let (handler, mut requests) = (self.clone(), requests.into_inner());
        tokio::spawn(async move {
            while let Ok(Some(frame)) = requests.message().await {
                let Ok(request) = DiscoveryRequest::decode(frame) else { break };
                if request.response_nonce.is_empty() {
                    let response = handler.response(&request).encode_to_vec();
                    // The client may have left.
                    let _ = responses.send(Ok(response.into())).await;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
