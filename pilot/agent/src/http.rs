//! HTTP/1.1 client with one request per connection.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// A request body of known length.
pub type FullBody = Full<Bytes>;

/// Sends a request and returns the response with an unread body. The connection is closed once the
/// body is read or dropped.
pub async fn send<S>(
    stream: S,
    request: Request<FullBody>,
) -> Result<Response<Incoming>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    // The default buffer of 400 KiB would dominate the agent's memory during a scrape.
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(BUFFER).handshake(TokioIo::new(stream)).await?;
    // The task ends with the sender and the body, which also report its errors.
    tokio::spawn(connection);
    sender.send_request(request).await
}

const BUFFER: usize = 64 * 1024;
