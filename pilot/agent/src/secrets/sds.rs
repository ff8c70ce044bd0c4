//! SDS server: secrets for Envoy on a Unix socket.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use pilot_xds::codec::MessageCodec;
use pilot_xds::messages::{DeltaDiscoveryRequest, DiscoveryRequest, DiscoveryResponse};
use pilot_xds::request_stream::RequestStream;
use pilot_xds::server::{DiscoveryHandler, DiscoveryServer};
use pilot_xds::service::{DiscoveryService, Variant};
use prost::Message;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::server::{Grpc, UnaryService};
use tower::Service;

use super::conditions::{Conditions, Subject};
use super::files::{self, KeyPairFiles};
use super::messages::{DataSource, Secret, TlsCertificate, ValidationContext, encode};
use super::metrics::Metrics;
use super::resource::SecretName;
use super::session::{Received, Session};
use super::store::{SecretStore, Subscription};
use crate::log_limit::LogLimit;

/// SDS server.
#[derive(Clone, Debug)]
pub(super) struct SdsServer {
    pub(super) store: Arc<SecretStore>,
    pub(super) conditions: Arc<Conditions>,
    pub(super) metrics: Metrics,
    /// Delay after a change of a file.
    pub(super) debounce: Duration,
    /// Reason for which the server has no workload certificate; it serves files only.
    pub(super) files_only: Option<&'static str>,
    /// Secrets in files that a task follows.
    pub(super) followed: Arc<Mutex<BTreeSet<String>>>,
}

impl SdsServer {
    /// Serves connections for as long as it is polled.
    pub(super) async fn serve(self, listener: UnixListener) -> Infallible {
        let mut failures = LogLimit::default();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let service = TowerToHyperService::new(SdsService::new(self.clone()));
                    tokio::spawn(async move {
                        let serving =
                            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                                .serve_connection(TokioIo::new(stream), service);
                        if let Err(error) = serving.await {
                            tracing::debug!("SDS connection: {error}");
                        }
                    });
                }
                Err(error) => {
                    let log = |count| {
                        tracing::warn!("accepting an SDS connection failed {count} times: {error}");
                    };
                    failures.pause(log).await;
                }
            }
        }
    }

    /// Subscribes to a secret, and follows its files.
    fn subscribe(&self, name: &str) -> Result<Arc<Subscription>, Status> {
        let parsed = SecretName::parse(name).map_err(|error| rejected(&error.to_string()))?;
        if let (SecretName::Workload | SecretName::Roots, Some(reason)) = (&parsed, self.files_only)
        {
            return Err(rejected(&format!("secret {name:?} is not served: {reason}")));
        }
        // Held until the task is recorded, so that an ending task sees the subscription.
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let subscription = self.store.subscribe(name);
        match parsed {
            SecretName::Workload | SecretName::Roots => {}
            SecretName::SystemRoots => {
                let file = files::system_roots().ok_or_else(|| {
                    rejected("secret \"file-root:system\": no file of root certificates in /etc")
                })?;
                let filename = file.display().to_string();
                let trusted_ca = Some(DataSource { filename, ..DataSource::default() });
                let validation = Some(ValidationContext { trusted_ca, crl: None });
                self.store.set(&parsed, Secret { validation, ..Secret::default() });
            }
            SecretName::FileCertificate { .. } | SecretName::FileRoots(_) => {
                if followed.insert(name.to_owned()) {
                    tokio::spawn(self.clone().follow(parsed));
                }
            }
        }
        Ok(subscription)
    }

    /// Follows the files of a secret until no stream subscribes to it.
    async fn follow(self, name: SecretName) {
        let (text, subject) = (name.to_string(), Subject::File(name.to_string()));
        let is_needed = || {
            let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            let is_needed = self.store.is_subscribed(&text);
            if !is_needed {
                followed.remove(&text);
                self.store.forget(&name);
                self.conditions.clear(&subject);
            }
            is_needed
        };
        let offer = |content: &Result<Secret, String>| match content {
            Ok(secret) => {
                self.conditions.clear(&subject);
                self.store.set(&name, secret.clone());
            }
            Err(reason) => {
                self.metrics.file_failed();
                self.conditions.set(subject.clone(), format!("secret {text}: {reason}"));
            }
        };
        let read = || match &name {
            SecretName::FileCertificate { certificate, key } => {
                KeyPairFiles::read(certificate, key)
                    .map(|pair| certificate_secret(pair.chain, pair.key))
            }
            SecretName::FileRoots(path) => {
                files::read_roots(path).map(|roots| roots_secret(roots, None))
            }
            SecretName::Workload | SecretName::Roots | SecretName::SystemRoots => {
                Ok(Secret::default())
            }
        };
        files::follow(self.debounce, read, offer, is_needed).await;
    }

    /// Answers `FetchSecrets`, when all of the secrets are there.
    async fn fetch(self, request: DiscoveryRequest) -> Result<DiscoveryResponse, Status> {
        let mut changes = self.store.changes();
        let names = request.resource_names.clone();
        let subscriptions: Vec<_> =
            names.iter().map(|name| self.subscribe(name)).collect::<Result<_, _>>()?;
        let mut session = Session::default();
        session.receive(DiscoveryRequest { response_nonce: String::new(), ..request });
        while names.iter().any(|name| self.store.find(name).is_none()) {
            changes.changed().await.map_err(|_| Status::unavailable("the agent ends"))?;
        }
        let response = session.response(|name| self.store.find(name)).unwrap_or_default();
        drop(subscriptions);
        Ok(response)
    }
}

impl DiscoveryHandler for SdsServer {
    type Responses = ReceiverStream<Result<Bytes, Status>>;

    async fn open(
        &self,
        variant: Variant,
        requests: tonic::Request<RequestStream>,
    ) -> Result<tonic::Response<Self::Responses>, Status> {
        let (responses, receiver) = mpsc::channel(PENDING_RESPONSES);
        let stream = SdsStream {
            server: self.clone(),
            variant,
            session: Session::default(),
            subscriptions: BTreeMap::new(),
        };
        tokio::spawn(async move {
            stream.server.metrics.stream_opened();
            let metrics = stream.server.metrics.clone();
            if let Err(status) = stream.run(requests.into_inner(), &responses).await {
                // The client may be gone.
                let _ = responses.send(Err(status)).await;
            }
            metrics.stream_closed();
        });
        Ok(tonic::Response::new(ReceiverStream::new(receiver)))
    }
}

/// One SDS stream.
struct SdsStream {
    server: SdsServer,
    variant: Variant,
    session: Session,
    subscriptions: BTreeMap<String, Arc<Subscription>>,
}

impl SdsStream {
    async fn run(
        mut self,
        mut requests: RequestStream,
        responses: &mpsc::Sender<Result<Bytes, Status>>,
    ) -> Result<(), Status> {
        let mut changes = self.server.store.changes();
        loop {
            tokio::select! {
                frame = requests.message() => match frame? {
                    Some(frame) => self.receive(frame)?,
                    None => return Ok(()),
                },
                changed = changes.changed() => if changed.is_err() {
                    return Ok(());
                },
            }
            if let Some(frame) = self.response()
                && responses.send(Ok(frame)).await.is_err()
            {
                return Ok(());
            }
        }
    }

    fn receive(&mut self, frame: Bytes) -> Result<(), Status> {
        let invalid = |error: prost::DecodeError| rejected(&error.to_string());
        let Received { subscribed, unsubscribed, answer } = match self.variant {
            Variant::StateOfTheWorld => {
                self.session.receive(DiscoveryRequest::decode(frame).map_err(invalid)?)
            }
            Variant::Delta => {
                self.session.receive_delta(DeltaDiscoveryRequest::decode(frame).map_err(invalid)?)
            }
        };
        for (name, version) in answer.iter().flat_map(|answer| &answer.secrets) {
            let rejected = answer.as_ref().and_then(|answer| answer.rejected.as_deref());
            self.server.metrics.answered(name, rejected.is_some());
            if let Some(reason) = rejected {
                tracing::warn!("Envoy rejects the secret {name}: {reason}");
            }
            if let Some(subscription) = self.subscriptions.get(name) {
                subscription.answer(*version);
            }
        }
        for name in unsubscribed {
            self.subscriptions.remove(&name);
        }
        for name in subscribed {
            let subscription = self.server.subscribe(&name).inspect_err(|status| {
                tracing::warn!("{}", status.message());
            })?;
            self.subscriptions.insert(name, subscription);
        }
        Ok(())
    }

    fn response(&mut self) -> Option<Bytes> {
        let store = &self.server.store;
        let find = |name: &str| store.find(name);
        match self.variant {
            Variant::StateOfTheWorld => self.session.response(find).map(|it| encode(&it)),
            Variant::Delta => self.session.delta_response(find).map(|it| encode(&it)),
        }
    }
}

/// HTTP service with all methods of SDS.
#[derive(Clone)]
struct SdsService {
    server: SdsServer,
    streams: DiscoveryServer<SdsServer>,
}

impl SdsService {
    fn new(server: SdsServer) -> Self {
        let streams =
            DiscoveryServer::new(DiscoveryService::Secret, server.clone(), LARGEST_REQUEST);
        Self { server, streams }
    }
}

impl Service<Request<Incoming>> for SdsService {
    type Response = Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        if request.uri().path() != FETCH {
            return self.streams.call(request);
        }
        let server = self.server.clone();
        async move {
            let codec = MessageCodec::<DiscoveryResponse, DiscoveryRequest>::default();
            Ok(Grpc::new(codec).unary(Fetch(server), request).await)
        }
        .boxed()
    }
}

/// Method `FetchSecrets`.
struct Fetch(SdsServer);

impl UnaryService<DiscoveryRequest> for Fetch {
    type Response = DiscoveryResponse;
    type Future = BoxFuture<'static, Result<tonic::Response<DiscoveryResponse>, Status>>;

    fn call(&mut self, request: tonic::Request<DiscoveryRequest>) -> Self::Future {
        let server = self.0.clone();
        async move { server.fetch(request.into_inner()).await.map(tonic::Response::new) }.boxed()
    }
}

/// Returns the secret of a certificate chain and its key.
pub(super) fn certificate_secret(chain: String, key: zeroize::Zeroizing<String>) -> Secret {
    let (chain, key) = (Some(DataSource::inline(chain)), Some(DataSource::key(key)));
    Secret { certificate: Some(TlsCertificate { chain, key }), ..Secret::default() }
}

/// Returns the secret of trusted roots and revocation lists.
pub(super) fn roots_secret(roots: String, revocations: Option<String>) -> Secret {
    let trusted_ca = Some(DataSource::inline(roots));
    let validation =
        Some(ValidationContext { trusted_ca, crl: revocations.map(DataSource::inline) });
    Secret { validation, ..Secret::default() }
}

fn rejected(message: &str) -> Status {
    Status::invalid_argument(message)
}

const FETCH: &str = "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets";
/// Responses that wait for a slow client.
const PENDING_RESPONSES: usize = 4;
/// Envoy's node may take some hundred kilobytes.
const LARGEST_REQUEST: usize = 4 << 20;
