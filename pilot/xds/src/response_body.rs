//! Body of a streaming gRPC response, as gRPC over HTTP/2 describes it.
//!
//! The buffer of tonic's body keeps the size of the largest message for as long as the stream is
//! open: several MB for each proxy of a large mesh. This one passes large frames on.

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use http::HeaderMap;
use http_body::Frame;
use http_body_util::StreamBody;
use tonic::body::Body;
use tonic::{Code, Status};

/// Returns a body of the frames, with the status at its end.
pub(crate) fn response_body<S>(responses: S) -> Body
where
    S: Stream<Item = Result<Bytes, Status>> + Send + 'static,
{
    let ended = responses.chain(stream::once(async { Err(Status::new(Code::Ok, "")) }));
    let parts = ended.scan(false, |is_over, response| {
        let parts = match response {
            _ if *is_over => return std::future::ready(None),
            Ok(frame) => data(frame),
            Err(status) => {
                *is_over = true;
                vec![trailers(&status)]
            }
        };
        std::future::ready(Some(stream::iter(parts)))
    });
    Body::new(StreamBody::new(parts.flatten()))
}

/// Frame behind its prefix: no compression, and the length.
fn data(frame: Bytes) -> Vec<Result<Frame<Bytes>, Status>> {
    let Ok(length) = u32::try_from(frame.len()) else {
        let problem = format!("a response of {} bytes is too long for gRPC", frame.len());
        return vec![Err(Status::internal(problem))];
    };
    let is_large = frame.len() > LARGE;
    let mut first = BytesMut::with_capacity(PREFIX + if is_large { 0 } else { frame.len() });
    first.put_u8(0);
    first.put_u32(length);
    if is_large {
        return vec![Ok(Frame::data(first.freeze())), Ok(Frame::data(frame))];
    }
    first.put(frame);
    vec![Ok(Frame::data(first.freeze()))]
}

fn trailers(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut headers = HeaderMap::new();
    status.add_header(&mut headers)?;
    Ok(Frame::trailers(headers))
}

const PREFIX: usize = 5;

/// Bytes from which a frame is passed on as it is. Smaller ones travel with their prefix.
const LARGE: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn collected(responses: Vec<Result<Bytes, Status>>) -> (Bytes, HeaderMap) {
        let collected = response_body(stream::iter(responses)).collect().await.unwrap();
        let trailers = collected.trailers().unwrap().clone();
        (collected.to_bytes(), trailers)
    }

    #[tokio::test]
    async fn frames_have_prefixes_and_the_end_has_a_status() {
        let large = vec![7; LARGE + 1];
        let (bytes, trailers) = collected(vec![
            Ok(Bytes::from_static(b"ab")),
            Ok(Bytes::new()),
            Ok(large.clone().into()),
        ])
        .await;
        let expected = [&b"\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\x40\x01"[..], &large].concat();
        assert_eq!(bytes, expected);
        assert_eq!((trailers.len(), &trailers["grpc-status"]), (1, &"0".parse().unwrap()));
    }

    #[tokio::test]
    async fn error_is_the_status_and_ends_the_body() {
        let responses = vec![
            Ok(Bytes::from_static(b"a")),
            Err(Status::unavailable("the control plane ends")),
            Ok(Bytes::from_static(b"b")),
        ];
        let (bytes, trailers) = collected(responses).await;
        assert_eq!(&bytes[..], b"\0\0\0\0\x01a");
        assert_eq!(trailers["grpc-status"], "14");
        assert_eq!(trailers["grpc-message"], "the%20control%20plane%20ends");
    }
}
