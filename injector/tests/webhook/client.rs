//! A client that can misbehave: raw bytes over TLS, and its own parser of answers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;

use base64::Engine;
use e2e::wait;
use rustix::net::{self, AddressFamily, SocketType, bind, socket};
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, ConfigBuilder, HandshakeKind, ProtocolVersion,
    RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use serde_json::{Value, json};

/// A connection after its TLS handshake.
pub(crate) struct Client {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Client {
    /// Connects and completes the handshake, trusting only this CA.
    pub(crate) fn connect(address: SocketAddr, ca: &[u8]) -> io::Result<Self> {
        let config = trusting(ca, rustls::DEFAULT_VERSIONS).with_no_client_auth();
        Self::connect_by(address, Arc::new(config))
    }

    /// Connects and completes the handshake. With TLS 1.3 the first answer shows if the server
    /// accepted the client's certificate.
    pub(crate) fn connect_by(address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<Self> {
        Self::connect_over(tcp(address)?, config)
    }

    /// Completes the handshake over an open connection.
    pub(crate) fn connect_over(stream: TcpStream, config: Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
        let connection = ClientConnection::new(config, name).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self { stream })
    }

    /// Returns the negotiated version, cipher suite and kind of handshake.
    pub(crate) fn negotiated(&self) -> (ProtocolVersion, CipherSuite, HandshakeKind) {
        let connection = &self.stream.conn;
        let suite = connection.negotiated_cipher_suite().unwrap().suite();
        (connection.protocol_version().unwrap(), suite, connection.handshake_kind().unwrap())
    }

    /// Returns the TCP connection without sending more TLS data.
    pub(crate) fn into_tcp(self) -> TcpStream {
        self.stream.sock
    }

    /// Requests the readiness. Returns the status if there is an answer.
    pub(crate) fn try_ready(&mut self) -> io::Result<u16> {
        self.stream.write_all(b"GET /ready HTTP/1.1\r\nHost: test\r\n\r\n")?;
        read_answer(&mut self.stream).map(|answer| answer.status)
    }

    /// Returns the presented serving certificate.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.stream.conn.peer_certificates().unwrap()[0].to_vec()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends a request and reads the answer.
    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        self.begin(method, path, headers, body);
        self.answer()
    }

    /// Sends a request.
    pub(crate) fn begin(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.send(&[head.as_bytes(), body].concat());
    }

    /// Sends a review and returns the response of the answered review.
    pub(crate) fn review(&mut self, path: &str, request: &Value) -> Value {
        let answer = self.ask("POST", path, JSON, review(request).to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.review()
    }

    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer().unwrap()
    }

    pub(crate) fn try_answer(&mut self) -> io::Result<Answer> {
        read_answer(&mut self.stream)
    }

    /// Waits for the server to close the connection. Returns true if it sends nothing before.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => is_end(&error) && rest.is_empty(),
        }
    }
}

/// True if an error means that the peer has closed the connection.
pub(crate) fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The header in lower case, one line per field.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Returns the value of a header. The name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Returns the response of a review, after checks of the fields common to all reviews.
    pub(crate) fn review(&self) -> Value {
        let mut review: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(review["kind"], "AdmissionReview");
        review["response"].take()
    }
}

/// Returns a client's configuration except for its own certificate.
pub(crate) fn trusting(
    ca: &[u8],
    versions: &[&'static SupportedProtocolVersion],
) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
}

/// Returns a review with this request.
pub(crate) fn review(request: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

/// Returns the pod with the response's patch applied.
pub(crate) fn patched(pod: &Value, response: &Value) -> Value {
    let patch = response["patch"].as_str().unwrap();
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).unwrap();
    let mut pod = pod.clone();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    json_patch::patch(&mut pod, &patch).unwrap();
    pod
}

/// Sends a request over plain HTTP.
pub(crate) fn plain_get(address: SocketAddr, path: &str) -> Answer {
    plain(address, "GET", path, "")
}

/// Sends a request with a body over plain HTTP.
pub(crate) fn plain(address: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
    plain_over(&mut tcp(address).unwrap(), method, path, body)
}

/// Sends the last request of an open connection.
pub(crate) fn plain_over(stream: &mut TcpStream, method: &str, path: &str, body: &str) -> Answer {
    try_plain_over(stream, method, path, body).unwrap()
}

/// Sends a request as [`plain_over`]; an error if there is no answer.
pub(crate) fn try_plain_over(
    stream: &mut TcpStream,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<Answer> {
    let head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len())?;
    read_answer(stream)
}

/// Opens a TCP connection with a timeout, so that a test does not hang.
pub(crate) fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    patient(TcpStream::connect(address)?)
}

/// Opens a connection as [`tcp`], from the given loopback address.
pub(crate) fn tcp_from(source: Ipv4Addr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from((source, 0)))?;
    net::connect(&socket, &address)?;
    patient(TcpStream::from(socket))
}

fn patient(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(wait::TIMEOUT))?;
    stream.set_write_timeout(Some(wait::TIMEOUT))?;
    Ok(stream)
}

/// The header of a review request.
pub(crate) const JSON: &str = "Content-Type: application/json\r\n";

fn read_answer(stream: &mut impl Read) -> io::Result<Answer> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap().replace("\r\n", "\n");
    let (line, headers) = head.split_once('\n').unwrap();
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let lower = |line: &str| match line.split_once(':') {
        Some((name, value)) => format!("{}:{value}", name.to_lowercase()),
        None => line.to_owned(),
    };
    let head = headers.lines().map(lower).collect::<Vec<_>>().join("\n");
    let mut answer = Answer { status, head, body: String::new() };
    let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    answer.body = String::from_utf8(body).unwrap();
    Ok(answer)
}
