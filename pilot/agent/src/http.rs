//! HTTP/1.1 client with one request per connection.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

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
    // hyper's default of 400 KiB per connection would dominate the agent's memory during a scrape.
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(BUFFER).handshake(TokioIo::new(stream)).await?;
    // The task ends with the sender and the body, which also report its errors.
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// Connects to a port on the loopback address of either family.
pub async fn connect_loopback(port: u16) -> io::Result<TcpStream> {
    match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(stream) => Ok(stream),
        // The first error stands for both: most pods have IPv4.
        Err(error) => TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.map_err(|_| error),
    }
}

/// Reads a body up to a limit in bytes; the rest is not read.
pub async fn read_at_most<B>(mut body: B, limit: usize) -> Result<Vec<u8>, B::Error>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut read = Vec::new();
    while read.len() < limit
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data[..data.len().min(limit - read.len())]);
        }
    }
    Ok(read)
}

const BUFFER: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn body_is_read_up_to_the_limit() {
        for (limit, expected) in [(0, ""), (3, "abc"), (6, "abcdef"), (9, "abcdef")] {
            let body = FullBody::from("abcdef");
            assert_eq!(read_at_most(body, limit).await.unwrap(), expected.as_bytes());
        }
    }
}
