//! An SDS client.

use std::path::Path;

use bytes::Bytes;
use e2e::wait;
use hyper_util::rt::TokioIo;
use pilot_agent::secrets::messages::Secret;
use pilot_xds::client::open;
use pilot_xds::codec::MessageCodec;
use pilot_xds::messages::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls::SECRET;
use prost::Message;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use x509_parser::pem::Pem;

/// An SDS client.
#[derive(Clone)]
pub(crate) struct SdsClient {
    channel: Channel,
}

impl SdsClient {
    pub(crate) async fn connect(socket: &Path) -> Self {
        let socket = socket.to_owned();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://sds");
        Self { channel: endpoint.connect_with_connector(connector).await.unwrap() }
    }

    /// Subscribes to secrets by state-of-the-world SDS.
    pub(crate) fn stream(&self, names: &[&str]) -> SdsStream {
        let mut stream = self.open(Variant::StateOfTheWorld);
        stream.names = names.iter().map(|name| (*name).to_owned()).collect();
        stream.request("", None);
        stream
    }

    /// Subscribes to secrets by delta SDS.
    pub(crate) fn delta(&self, names: &[&str]) -> SdsStream {
        let stream = self.open(Variant::Delta);
        stream.send(&DeltaDiscoveryRequest {
            type_url: SECRET.to_owned(),
            resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
            ..DeltaDiscoveryRequest::default()
        });
        stream
    }

    pub(crate) async fn fetch(&self, names: &[&str]) -> Result<Vec<Secret>, Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.unwrap();
        let request = DiscoveryRequest {
            type_url: SECRET.to_owned(),
            resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..DiscoveryRequest::default()
        };
        let path = "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets";
        let path = http::uri::PathAndQuery::from_static(path);
        let codec = MessageCodec::<DiscoveryRequest, DiscoveryResponse>::default();
        let response =
            timeout(wait::TIMEOUT, client.unary(Request::new(request), path, codec)).await;
        Ok(secrets(&response.unwrap()?.into_inner()))
    }

    fn open(&self, variant: Variant) -> SdsStream {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (responses, received) = mpsc::unbounded_channel();
        let channel = self.channel.clone();
        tokio::spawn(async move {
            let requests = Request::new(UnboundedReceiverStream::new(receiver));
            let opened = open(channel, DiscoveryService::Secret, variant, requests).await;
            let mut frames: Streaming<Bytes> = match opened {
                Ok(opened) => opened.into_inner(),
                Err(status) => {
                    let _ = responses.send(Err(status));
                    return;
                }
            };
            while let Some(frame) = frames.message().await.transpose() {
                if responses.send(frame).is_err() {
                    return;
                }
            }
        });
        SdsStream { requests, responses: received, names: Vec::new() }
    }
}

/// An SDS stream. Responses are acknowledged when they are taken.
pub(crate) struct SdsStream {
    requests: mpsc::UnboundedSender<Bytes>,
    responses: mpsc::UnboundedReceiver<Result<Bytes, Status>>,
    pub(crate) names: Vec<String>,
}

impl SdsStream {
    /// Takes the next response of state-of-the-world SDS, and acknowledges it.
    pub(crate) async fn next(&mut self) -> Result<Vec<Secret>, Status> {
        let response = self.next_without_ack().await?;
        self.request(&response.nonce, None);
        Ok(secrets(&response))
    }

    /// Takes responses up to one in which a secret is as wanted.
    pub(crate) async fn until(&mut self, is_wanted: impl Fn(&Secret) -> bool) -> Secret {
        loop {
            if let Some(secret) = self.next().await.unwrap().into_iter().find(&is_wanted) {
                return secret;
            }
        }
    }

    pub(crate) async fn next_without_ack(&mut self) -> Result<DiscoveryResponse, Status> {
        Ok(DiscoveryResponse::decode(self.frame().await?).unwrap())
    }

    /// Takes the next response of delta SDS, and acknowledges it.
    pub(crate) async fn next_delta(&mut self) -> Result<Vec<Secret>, Status> {
        let response = DeltaDiscoveryResponse::decode(self.frame().await?).unwrap();
        self.send(&DeltaDiscoveryRequest {
            type_url: SECRET.to_owned(),
            response_nonce: response.nonce,
            ..DeltaDiscoveryRequest::default()
        });
        let resources = response.resources.into_iter();
        Ok(resources.map(|it| Secret::decode(it.resource.unwrap().value).unwrap()).collect())
    }

    /// True if a response is waiting to be taken.
    pub(crate) fn has_response(&self) -> bool {
        !self.responses.is_empty()
    }

    /// Sends a request of state-of-the-world SDS.
    pub(crate) fn request(&self, nonce: &str, error: Option<&str>) {
        let error = error
            .map(|message| pilot_xds::messages::Status { code: 13, message: message.to_owned() });
        self.send(&DiscoveryRequest {
            type_url: SECRET.to_owned(),
            resource_names: self.names.clone(),
            response_nonce: nonce.to_owned(),
            error_detail: error,
            ..DiscoveryRequest::default()
        });
    }

    fn send(&self, request: &impl Message) {
        // The stream may have ended with an error.
        let _ = self.requests.send(request.encode_to_vec().into());
    }

    async fn frame(&mut self) -> Result<Bytes, Status> {
        timeout(wait::TIMEOUT, self.responses.recv()).await.unwrap().unwrap()
    }
}

fn secrets(response: &DiscoveryResponse) -> Vec<Secret> {
    assert_eq!(response.type_url, SECRET);
    let resources = response.resources.iter();
    resources.map(|it| Secret::decode(it.value.clone()).unwrap()).collect()
}

/// Chain and key of a secret as text.
pub(crate) fn pair(secret: &Secret) -> (String, String) {
    let certificate = secret.certificate.clone().unwrap();
    let text = |source: Option<pilot_agent::secrets::messages::DataSource>| {
        String::from_utf8(source.unwrap().inline_bytes.to_vec()).unwrap()
    };
    (text(certificate.chain), text(certificate.key))
}

/// Issuer of the first certificate of a chain in PEM.
pub(crate) fn issuer(chain: &str) -> String {
    let pem = Pem::iter_from_buffer(chain.as_bytes()).next().unwrap().unwrap();
    pem.parse_x509().unwrap().issuer().to_string()
}

/// Trusted roots of a secret as text.
pub(crate) fn roots(secret: &Secret) -> String {
    let validation = secret.validation.clone().unwrap();
    String::from_utf8(validation.trusted_ca.unwrap().inline_bytes.to_vec()).unwrap()
}

/// True if the roots contain a certificate; line lengths may differ.
pub(crate) fn has_root(secret: &Secret, root: &str) -> bool {
    let ders = |text: &str| -> Vec<Vec<u8>> {
        Pem::iter_from_buffer(text.as_bytes()).map(|pem| pem.unwrap().contents).collect()
    };
    let found = ders(&roots(secret));
    ders(root).iter().all(|root| found.contains(root))
}
