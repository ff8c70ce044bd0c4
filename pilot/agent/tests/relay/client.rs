//! Client in Envoy's place.

use std::future::Future;
use std::path::Path;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use pilot_xds::client;
use pilot_xds::service::{DiscoveryService, Variant};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// Awaits a future.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(e2e::wait::TIMEOUT, future).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Client with an open stream.
pub(crate) struct Client {
    pub(crate) requests: mpsc::Sender<Bytes>,
    pub(crate) responses: Streaming<Bytes>,
    pub(crate) _channel: Channel,
}

impl Client {
    /// Opens a stream through the relay.
    pub(crate) async fn open(socket: &Path, variant: Variant) -> Result<Self, Status> {
        let socket = socket.to_owned();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://xds");
        let channel = endpoint.connect_with_connector(connector).await.unwrap();
        let (requests, receiver) = mpsc::channel(1);
        let stream = Request::new(ReceiverStream::new(receiver));
        let opening = client::open(channel.clone(), DiscoveryService::Aggregated, variant, stream);
        let responses = within("response headers", opening).await?.into_inner();
        Ok(Self { requests, responses, _channel: channel })
    }

    /// Returns the next response; `None` when the stream ends without an error.
    pub(crate) async fn receive(&mut self) -> Result<Option<Bytes>, Status> {
        within("a response", self.responses.message()).await
    }
}
