//! Client side of the discovery services.

use bytes::Bytes;
use futures::Stream;
use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::{Request, Response, Status, Streaming};

use crate::codec::FrameCodec;
use crate::service::{DiscoveryService, Variant};

/// Opens a stream. Frames received may have any size.
///
/// A server may send response headers with its first response only. Requests must therefore flow
/// while the caller awaits this function.
pub async fn open<T>(
    channel: T,
    service: DiscoveryService,
    variant: Variant,
    requests: Request<impl Stream<Item = Bytes> + Send + 'static>,
) -> Result<Response<Streaming<Bytes>>, Status>
where
    T: GrpcService<Body>,
    T::ResponseBody: http_body::Body + Send + 'static,
    <T::ResponseBody as http_body::Body>::Error:
        Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    T::Error: Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
{
    let mut client = Grpc::new(channel).max_decoding_message_size(usize::MAX);
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let path = PathAndQuery::from_static(service.path(variant));
    client.streaming(requests, path, FrameCodec).await
}
