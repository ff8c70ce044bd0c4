//! Servers that stand for an application, each connection answered by a closure.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A server, which runs until the test process ends.
pub(crate) struct Application {
    pub(crate) port: u16,
    /// Heads of requests, the client's address before each.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl Application {
    /// Starts a server on loopback.
    pub(crate) fn start(answer: impl Fn(&str, TcpStream) + Send + Sync + 'static) -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), answer)
    }

    /// Starts a server on this address, in the namespace of the calling thread.
    pub(crate) fn listen(
        address: SocketAddr,
        answer: impl Fn(&str, TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (answer, seen) = (Arc::new(answer), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                thread::spawn(move || {
                    let stream = stream.unwrap();
                    let client = stream.peer_addr().unwrap().ip().to_canonical();
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let head = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
                    let head: Vec<String> = head.collect();
                    let head = head.join("\n").to_ascii_lowercase();
                    seen.lock().unwrap().push(format!("{client}\n{head}"));
                    answer(&head, stream);
                });
            }
        });
        Self { port, requests }
    }

    /// Starts a server of one page of metrics.
    pub(crate) fn metrics(content_type: &'static str, page: impl Into<String>) -> Self {
        let page = page.into();
        Self::start(move |_, stream| respond(stream, "200 OK", content_type, &page))
    }
}

/// Starts a server of one page over TLS, with a certificate that nobody signed. Returns its port.
pub(crate) fn serve_over_tls(page: &'static str) -> u16 {
    let names = ["application.example".to_owned()];
    let issued = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            // The request fits in one record.
            if stream.read(&mut [0; 4096]).is_ok() {
                respond(&mut stream, "200 OK", TEXT, page);
            }
        }
    });
    port
}

/// Writes an answer of known length.
pub(crate) fn respond(mut stream: impl Write, status: &str, content_type: &str, body: &str) {
    let length = body.len();
    // The client may have left.
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         \r\n{body}"
    );
}

pub(crate) const TEXT: &str = "text/plain; version=0.0.4";
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
