//! The certificate service of the control plane, over TLS.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use pilot_agent::secrets::messages::{CertificateRequest, CertificateResponse};
use pilot_xds::codec::MessageCodec;
use rcgen::KeyPair;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};

use e2e::mesh_authority::MeshAuthority;

use crate::fixture::{ca, leaf_of};

/// Behaviour of the service.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Signs requests.
    Sign,
    /// Answers with an error.
    Refuse(Status),
    /// Answers after an hour.
    Slow,
    /// Signs another key.
    OtherKey,
    /// Signs for another service account.
    OtherIdentity,
    /// Signs certificates that become valid in an hour.
    Future,
    /// Signs by an authority whose root is not in the answer.
    OtherAuthority,
    /// Answers with these texts.
    Texts(Vec<String>),
}

/// State of the service, shared with the test.
pub(crate) struct State {
    pub(crate) behaviour: Behaviour,
    /// The authority that signs.
    pub(crate) signer: Arc<MeshAuthority>,
    /// Root certificates in answers.
    pub(crate) roots: Vec<Arc<MeshAuthority>>,
    /// Tokens by service account.
    pub(crate) tokens: Vec<(String, String)>,
    pub(crate) lifetime: Duration,
    pub(crate) requests: Vec<Received>,
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) validity_duration: i64,
    pub(crate) cluster: String,
}

/// A certificate service. It ends when the value is dropped.
pub(crate) struct CertificateService {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) address: String,
    /// Root of its serving certificate.
    pub(crate) root: String,
    /// Authority of client certificates, which authenticate as the first account.
    pub(crate) clients: MeshAuthority,
    tls: TlsAcceptor,
    tasks: Option<JoinSet<()>>,
}

pub(crate) const NAME: &str = "istiod.istio-system.svc";

impl CertificateService {
    /// Starts a service that signs for service accounts whose token is `token-ACCOUNT`.
    pub(crate) async fn start(accounts: &[&str], lifetime: Duration) -> Self {
        let control_plane = ca("control plane");
        let signer = Arc::new(ca("mesh"));
        let state = State {
            behaviour: Behaviour::Sign,
            roots: vec![Arc::clone(&signer)],
            signer,
            tokens: accounts
                .iter()
                .map(|account| (format!("token-{account}"), (*account).to_owned()))
                .collect(),
            lifetime,
            requests: Vec::new(),
        };
        let (certificate, key) = control_plane.server(&[NAME.to_owned()]).unwrap();
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let clients = ca("clients");
        let mut trusted = rustls::RootCertStore::empty();
        trusted.add(CertificateDer::from_pem_slice(clients.root().as_bytes()).unwrap()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(trusted), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .unwrap();
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let mut service = Self {
            state: Arc::new(Mutex::new(state)),
            address: format!("127.0.0.1:{}", e2e::port::free_port().unwrap()),
            root: control_plane.root().to_owned(),
            clients,
            tls: TlsAcceptor::from(Arc::new(tls)),
            tasks: None,
        };
        service.resume().await;
        service
    }

    pub(crate) fn set(&self, behaviour: Behaviour) {
        self.state.lock().unwrap().behaviour = behaviour;
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.lock().unwrap().requests.len()
    }

    /// Closes the socket and all connections.
    pub(crate) async fn stop(&mut self) {
        if let Some(mut tasks) = self.tasks.take() {
            tasks.shutdown().await;
        }
    }

    /// Opens the socket.
    pub(crate) async fn resume(&mut self) {
        let listener = TcpListener::bind(&self.address).await.unwrap();
        let (state, tls) = (Arc::clone(&self.state), self.tls.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (state, tls) = (Arc::clone(&state), tls.clone());
                connections.spawn(async move {
                    let Ok(stream) = tls.accept(tcp).await else { return };
                    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                    let service = tower::service_fn(move |request: http::Request<_>| {
                        let method = Method(Arc::clone(&state), has_certificate);
                        async move {
                            assert_eq!(
                                request.uri().path(),
                                "/istio.v1.auth.IstioCertificateService/CreateCertificate"
                            );
                            let codec =
                                MessageCodec::<CertificateResponse, CertificateRequest>::default();
                            Ok::<_, Infallible>(Grpc::new(codec).unary(method, request).await)
                        }
                    });
                    // The client may leave at any time.
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
                        .await;
                });
            }
        });
        self.tasks = Some(tasks);
    }
}

/// The state, and true if the client has presented a certificate.
struct Method(Arc<Mutex<State>>, bool);

impl UnaryService<CertificateRequest> for Method {
    type Response = CertificateResponse;
    type Future = BoxFuture<'static, Result<Response<CertificateResponse>, Status>>;

    fn call(&mut self, request: Request<CertificateRequest>) -> Self::Future {
        let answer = answer(&mut self.0.lock().unwrap(), self.1, &request);
        async move {
            match answer {
                Some(answer) => {
                    answer.map(|cert_chain| Response::new(CertificateResponse { cert_chain }))
                }
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// Returns the answer; `None` if there is none for an hour.
fn answer(
    state: &mut State,
    has_certificate: bool,
    request: &Request<CertificateRequest>,
) -> Option<Result<Vec<String>, Status>> {
    let header = |name| {
        let value = request.metadata().get(name);
        value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let CertificateRequest { csr, validity_duration } = request.get_ref().clone();
    let cluster = header("clusterid");
    state.requests.push(Received { validity_duration, cluster });
    let token = header("authorization").replace("Bearer ", "");
    let account = if has_certificate && token.is_empty() {
        state.tokens.first()
    } else {
        state.tokens.iter().find(|(known, _)| *known == token)
    };
    let Some((_, account)) = account else {
        return Some(Err(Status::unauthenticated("the token has expired")));
    };
    let mut leaf = leaf_of(account, state.lifetime);
    let other_key = || {
        let key = KeyPair::generate().unwrap();
        rcgen::CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap()
    };
    let signed = match &state.behaviour {
        Behaviour::Sign => state.signer.sign(&csr, &leaf),
        Behaviour::Refuse(status) => return Some(Err(status.clone())),
        Behaviour::Slow => return None,
        Behaviour::Texts(texts) => return Some(Ok(texts.clone())),
        Behaviour::OtherKey => state.signer.sign(&other_key(), &leaf),
        Behaviour::OtherIdentity => {
            leaf = leaf_of("admin", state.lifetime);
            state.signer.sign(&csr, &leaf)
        }
        Behaviour::Future => {
            leaf.not_before = SystemTime::now() + Duration::from_secs(3600);
            leaf.not_after = leaf.not_before + Duration::from_secs(3600);
            state.signer.sign(&csr, &leaf)
        }
        Behaviour::OtherAuthority => ca("other").sign(&csr, &leaf),
    };
    let roots = state.roots.iter().map(|root| root.root()).collect();
    Some(Ok(vec![signed.unwrap(), roots]))
}
