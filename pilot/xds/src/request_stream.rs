//! Requests of a stream, as gRPC over HTTP/2 frames them.
//!
//! The buffer of tonic's stream keeps the size of the largest request for as long as the stream is
//! open: a proxy that reconnects to a large mesh names all of its resources. This one keeps nothing
//! between two requests.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tonic::Status;
use tonic::body::Body;

/// Requests of a client, as encoded frames.
pub struct RequestStream {
    body: Body,
    buffer: BytesMut,
    largest: usize,
}

impl RequestStream {
    /// Reads requests of at most `largest` bytes from the body of an HTTP request.
    pub(crate) fn new<B>(body: B, largest: usize) -> Self
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let body = body
            .map_frame(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
            .map_err(|error| Status::from_error(error.into()));
        Self { body: Body::new(body), buffer: BytesMut::new(), largest }
    }

    /// Returns the next request; `None` at the end of the stream. No request is lost if the future
    /// is dropped before it is ready.
    ///
    /// # Errors
    ///
    /// Fails if the connection breaks, a request is compressed or too large, or the stream ends
    /// within a request.
    pub async fn message(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(request) = self.take()? {
                return Ok(Some(request));
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(Status::internal("the stream ended within a request")),
            }
        }
    }

    /// Takes a whole request from the buffer.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let [compressed, length @ ..] = *prefix;
        if compressed != 0 {
            return Err(Status::unimplemented("a request is compressed; send it as it is"));
        }
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.largest {
            let problem = format!("a request has {length} bytes; the limit is {}", self.largest);
            return Err(Status::resource_exhausted(problem));
        }
        if rest.len() < length {
            let missing = length - rest.len();
            // A client may announce more than it sends.
            self.buffer.reserve(missing.min(LARGEST_RESERVATION));
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        let request = self.buffer.split_to(length).freeze();
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        Ok(Some(request))
    }
}

impl fmt::Debug for RequestStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RequestStream").finish_non_exhaustive()
    }
}

const PREFIX: usize = 5;
const LARGEST_RESERVATION: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tonic::Code;

    use super::*;

    /// Requests that arrive in these parts.
    fn requests(parts: &[&'static [u8]]) -> RequestStream {
        let frames: Vec<_> = parts
            .iter()
            .map(|part| Ok::<_, Status>(Frame::data(Bytes::from_static(part))))
            .collect();
        RequestStream::new(StreamBody::new(stream::iter(frames)), 3)
    }

    #[tokio::test]
    async fn requests_arrive_in_any_parts() {
        for parts in [
            &[&b"\0\0\0\0\x02ab\0\0\0\0\0\0\0\0\0\x03cde"[..]][..],
            &[b"\0\0", b"\0\0\x02a", b"b\0\0\0\0\0\0", b"\0\0\0\x03", b"c", b"d", b"", b"e"],
        ] {
            let mut requests = requests(parts);
            for expected in [&b"ab"[..], b"", b"cde"] {
                assert_eq!(requests.message().await.unwrap().unwrap(), expected);
            }
            assert_eq!(requests.message().await.unwrap(), None);
            assert_eq!(requests.buffer.capacity(), 0);
        }
    }

    #[tokio::test]
    async fn request_that_cannot_be_taken_is_an_error() {
        for (parts, code) in [
            (&b"\0\0\0\0\x02a"[..], Code::Internal),
            (b"\0\0", Code::Internal),
            (b"\x01\0\0\0\x01a", Code::Unimplemented),
            (b"\0\0\0\0\x04abcd", Code::ResourceExhausted),
        ] {
            let error = requests(&[parts]).message().await.unwrap_err();
            assert_eq!(error.code(), code, "{error}");
        }
    }
}
