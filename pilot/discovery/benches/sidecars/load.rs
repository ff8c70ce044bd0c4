//! The application and its clients: HTTP/1.1 on kept connections.

use std::io::{Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use e2e::netns::Namespace;

use crate::pair::CLIENT_IDENTITY;

/// Starts the application, which runs until the process ends. It rejects requests without the
/// client's certificate: generated configuration takes plaintext as well.
pub(crate) fn serve(namespace: &Namespace, address: SocketAddr) {
    let listener = namespace.run(|| TcpListener::bind(address)).unwrap().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A proxy may reset its connection.
            thread::spawn(move || answer(stream?));
        }
    });
}

fn answer(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY}\r\n\r\n{}", "x".repeat(BODY));
    let rejection = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
    let identity = CLIENT_IDENTITY.as_bytes();
    let (mut buffer, mut filled) = ([0; 4096], 0);
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
        let request = &buffer[..filled];
        if request.ends_with(b"\r\n\r\n") {
            let mut windows = request.windows(identity.len());
            let is_authenticated = windows.any(|window| window == identity);
            let response = if is_authenticated { &response } else { rejection };
            stream.write_all(response.as_bytes())?;
            filled = 0;
        }
    }
}

/// Sends requests one after the other on each connection. Returns the latencies of all, and the
/// time that all took together.
pub(crate) fn run(
    address: SocketAddr,
    connections: usize,
    requests: usize,
) -> (Vec<Duration>, Duration) {
    let streams: Vec<_> = (0..connections).map(|_| connect(address)).collect();
    let begin = Instant::now();
    let latencies = thread::scope(|scope| {
        let start = |mut stream: TcpStream| {
            scope.spawn(move || -> Vec<Duration> {
                (0..requests).map(|_| exchange(&mut stream).unwrap()).collect()
            })
        };
        let threads: Vec<_> = streams.into_iter().map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    (latencies, begin.elapsed())
}

/// Sends one request on a new connection.
pub(crate) fn probe(address: SocketAddr) -> Result<()> {
    exchange(&mut TcpStream::connect(address)?).map(drop)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn exchange(stream: &mut TcpStream) -> Result<Duration> {
    let begin = Instant::now();
    stream.write_all(REQUEST)?;
    let (mut buffer, mut filled) = ([0; 4096], 0);
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        filled += count;
        let response = &buffer[..filled];
        let head = response.windows(4).position(|window| window == b"\r\n\r\n");
        if head.is_some_and(|head| filled == head + 4 + BODY) {
            let is_ok = response.starts_with(b"HTTP/1.1 200 ");
            return if is_ok { Ok(begin.elapsed()) } else { Err(invalid(response)) };
        }
        if count == 0 || head.is_some_and(|_| !response.starts_with(b"HTTP/1.1 200 ")) {
            return Err(invalid(response));
        }
    }
}

fn invalid(response: &[u8]) -> std::io::Error {
    std::io::Error::other(String::from_utf8_lossy(response).into_owned())
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: web.shop\r\n\r\n";
const BODY: usize = 100;
