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
    let mut builder = http1::Builder::new();
    // hyper's default of 400 KiB per connection would dominate the agent's memory during a scrape.
    builder.max_buf_size(BUFFER);
    // The kubelet and Prometheus accept such answers of applications.
    builder
        .max_headers(HEADERS)
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
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

/// Headers of an answer.
const HEADERS: usize = 1000;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Answers that Go's client takes.
    #[tokio::test]
    async fn sloppy_heads_are_accepted() {
        let many = "X-Name: a\r\n".repeat(300);
        for head in [many.as_str(), "X-Name : a\r\n", "X: a\r\n b\r\n", "X Name: a\r\n"] {
            let (client, mut server) = tokio::io::duplex(BUFFER);
            let head = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 0\r\n\r\n");
            let answer = async {
                server.read_u8().await.unwrap();
                server.write_all(head.as_bytes()).await.unwrap();
            };
            let request = Request::new(FullBody::default());
            let (response, ()) = tokio::join!(send(client, request), answer);
            assert_eq!(response.unwrap().status(), 200, "{head}");
        }
    }

    #[tokio::test]
    async fn body_is_read_up_to_the_limit() {
        for (limit, expected) in [(0, ""), (3, "abc"), (6, "abcdef"), (9, "abcdef")] {
            let body = FullBody::from("abcdef");
            assert_eq!(read_at_most(body, limit).await.unwrap(), expected.as_bytes());
        }
    }
}
