//! HTTP client of the tests, which shows the headers of answers.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use e2e::wait;
use socket2::{Domain, Socket, Type};

/// An answer, with its body decoded.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// The body has its end.
    pub(crate) complete: bool,
}

/// Sends a GET request with additional headers.
pub(crate) fn get(server: SocketAddr, path: &str, headers: &str) -> Answer {
    send(server, "GET", path, headers)
}

/// Sends a request with additional headers, and reads to the end of the connection.
pub(crate) fn send(server: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    read(open(server, method, path, headers))
}

/// Sends a request with additional headers, and reads nothing.
pub(crate) fn open(server: SocketAddr, method: &str, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(wait::TIMEOUT)).unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Sends a GET request from this address, and reads nothing.
pub(crate) fn open_from(client: IpAddr, server: SocketAddr, path: &str) -> TcpStream {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(client, 0).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(wait::TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

/// Reads an answer.
pub(crate) fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    // A reset ends the answer, as an incomplete one.
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        bytes.extend_from_slice(&piece[..length]);
    }
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let (body, complete) = if head.contains("transfer-encoding: chunked") {
        join_chunks(body)
    } else {
        (body.to_owned(), true)
    };
    Answer { status, head, body, complete }
}

fn join_chunks(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let Some(chunk) = after.get(..size) else { break };
        body.push_str(chunk);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}
