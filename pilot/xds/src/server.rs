//! Server side of the discovery services.

use std::convert::Infallible;
use std::future::Future;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};
use tower::Service;

use crate::request_stream::RequestStream;
use crate::response_body::response_body;
use crate::service::{DiscoveryService, Variant};

/// Implementation of a discovery service.
pub trait DiscoveryHandler: Clone + Send + Sync + 'static {
    /// Responses of one stream, as encoded frames.
    type Responses: Stream<Item = Result<Bytes, Status>> + Send + 'static;

    /// Opens a stream. Its requests are encoded frames.
    fn open(
        &self,
        variant: Variant,
        requests: Request<RequestStream>,
    ) -> impl Future<Output = Result<Response<Self::Responses>, Status>> + Send;
}

/// HTTP service of a [`DiscoveryHandler`]. Frames received may have any size up to `max_request`.
#[derive(Clone, Debug)]
pub struct DiscoveryServer<H> {
    service: DiscoveryService,
    handler: H,
    max_request: usize,
}

impl<H: DiscoveryHandler> DiscoveryServer<H> {
    /// Creates the service. Larger requests than `max_request` end their stream.
    pub fn new(service: DiscoveryService, handler: H, max_request: usize) -> Self {
        Self { service, handler, max_request }
    }
}

impl<H: DiscoveryHandler, B> Service<http::Request<B>> for DiscoveryServer<H>
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync + 'static>> + Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let Self { service, handler, max_request } = self.clone();
        Box::pin(async move {
            let Some(variant) = service.variant(request.uri().path()) else {
                return Ok(unimplemented(request.uri().path()));
            };
            let (parts, body) = request.into_parts();
            let requests = RequestStream::new(body, max_request);
            let metadata = MetadataMap::from_headers(parts.headers);
            let requests = Request::from_parts(metadata, parts.extensions, requests);
            Ok(match handler.open(variant, requests).await {
                Ok(response) => answer(response),
                Err(status) => status.into_http(),
            })
        })
    }
}

fn answer<S>(response: Response<S>) -> http::Response<Body>
where
    S: Stream<Item = Result<Bytes, Status>> + Send + 'static,
{
    let (metadata, responses, _) = response.into_parts();
    let mut answer = http::Response::new(response_body(responses));
    *answer.headers_mut() = metadata.into_headers();
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer
}

fn unimplemented(path: &str) -> http::Response<Body> {
    Status::unimplemented(format!("unknown method {path}")).into_http()
}
