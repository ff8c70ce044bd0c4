//! HTTP requests of tests from the machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail};

use crate::wait::REQUEST_TIMEOUT;

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The body, decoded.
    pub body: String,
}

impl Response {
    /// Returns the body if the status is 200.
    pub fn expect_ok(self) -> Result<String> {
        if self.status == 200 {
            return Ok(self.body);
        }
        bail!("status {}: {}", self.status, self.body.trim())
    }
}

/// Gets `path` from a server, on a connection of its own.
pub fn get(server: SocketAddr, path: &str) -> Result<Response> {
    send(server, "GET", path)
}

/// Sends a request without a body, on a connection of its own.
pub fn send(server: SocketAddr, method: &str, path: &str) -> Result<Response> {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {server}\r\n");
    let attempt = || -> Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&server, REQUEST_TIMEOUT)?;
        stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
        write!(stream, "{head}Content-Length: 0\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let asked = || format!("{method} http://{server}{path}");
    let answer = attempt().with_context(asked)?;
    parse(&answer).with_context(|| format!("{}: not an HTTP answer", asked()))
}

fn parse(answer: &[u8]) -> Option<Response> {
    let (head, body) = split_at_text(answer, "\r\n\r\n")?;
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let status = head.strip_prefix("http/1.")?.split_whitespace().nth(1)?.parse().ok()?;
    let chunked = head.lines().any(|line| line.trim() == "transfer-encoding: chunked");
    let body = if chunked { join_chunks(body)? } else { body.to_vec() };
    Some(Response { status, body: String::from_utf8_lossy(&body).into_owned() })
}

fn join_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let (size, after) = split_at_text(rest, "\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(size).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
}

fn split_at_text<'a>(bytes: &'a [u8], text: &str) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes())?;
    Some((&bytes[..at], &bytes[at + text.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_is_parsed() {
        let response = parse(b"HTTP/1.1 404 Not Found\r\nServer: x\r\n\r\nnothing\r\n\r\nhere");
        let expected = Response { status: 404, body: "nothing\r\n\r\nhere".to_owned() };
        assert_eq!(response, Some(expected));
    }

    #[test]
    fn chunked_body_is_joined() {
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            4\r\nWiki\r\nA\r\npedia\r\n in\r\n0\r\n\r\n";
        assert_eq!(parse(answer).unwrap().body, "Wikipedia\r\n in");
    }

    #[test]
    fn truncated_body_is_an_error() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nWi"), None);
    }
}
