//! Connections to the control plane: xDS and the certificate service.
//!
//! A connection serves one stream or call. So each reads the root certificate again, a Service of
//! several control planes balances them, and a changed address applies to the next one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use hyper_util::rt::TokioIo;
use local_files::read_text_file;
use rustls::sign::CertifiedKey;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataKey, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use zeroize::Zeroizing;

pub use self::error::ChannelError;
use crate::config::{CertificateOptions, Config, Paths, Pod, RootSource};

mod error;
mod tls;

/// Server of the control plane and credentials for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChannelOptions {
    /// `HOST:PORT`.
    pub address: String,
    /// Name to verify in the server's certificate; the host of the address by default.
    pub server_name: Option<String>,
    /// Root certificate of the server.
    pub root: RootSource,
    /// File of the bearer token; `None` sends no token.
    pub token: Option<PathBuf>,
    /// Cluster id, sent as `clusterid`.
    pub cluster_id: String,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
    /// True if the connection is not encrypted.
    pub plaintext: bool,
}

impl ChannelOptions {
    /// Returns the options of the xDS server.
    pub fn of_discovery(config: &Config) -> Self {
        let discovery = &config.discovery;
        Self {
            address: discovery.address.clone(),
            server_name: discovery.server_name.clone(),
            root: discovery.root.clone(),
            // A token never travels in clear.
            token: (discovery.send_token && !discovery.plaintext)
                .then(|| config.paths.token.clone()),
            cluster_id: config.pod.cluster_id.clone(),
            headers: discovery.headers.clone(),
            plaintext: discovery.plaintext,
        }
    }

    /// Returns the options of the certificate service. With a certificate in `PROV_CERT`, no token
    /// is sent.
    pub fn of_certificates(options: &CertificateOptions, pod: &Pod, paths: &Paths) -> Self {
        Self {
            address: options.ca_address.clone(),
            server_name: options.server_name.clone(),
            root: options.ca_root.clone(),
            token: options.provisioned.is_none().then(|| paths.token.clone()),
            cluster_id: pod.cluster_id.clone(),
            headers: options.headers.clone(),
            plaintext: false,
        }
    }
}

/// Certificate of the workload, replaced at each rotation.
pub type Identity = watch::Receiver<Option<Arc<CertifiedKey>>>;

/// Client of the control plane, whose address may change. Clones change together.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    options: Arc<watch::Sender<Arc<ChannelOptions>>>,
    identity: Option<Identity>,
}

impl ControlPlane {
    /// Creates a client. It presents the certificate in `identity`, if any.
    pub fn new(options: ChannelOptions, identity: Option<Identity>) -> Self {
        Self { options: Arc::new(watch::Sender::new(Arc::new(options))), identity }
    }

    /// Sets the options of later connections. Returns true if they differ.
    pub fn set(&self, options: ChannelOptions) -> bool {
        self.options.send_if_modified(|current| {
            let differs = **current != options;
            if differs {
                *current = Arc::new(options);
            }
            differs
        })
    }

    /// Returns the server of a connection and of its requests.
    pub fn server(&self) -> Server {
        Server { options: Arc::clone(&self.options.borrow()), identity: self.identity.clone() }
    }
}

/// Server of the control plane. It stays the same when the address changes, so that a connection
/// never gets the credentials of another one.
#[derive(Clone, Debug)]
pub struct Server {
    options: Arc<ChannelOptions>,
    identity: Option<Identity>,
}

impl Server {
    /// Returns `HOST:PORT` of the server.
    pub fn address(&self) -> &str {
        &self.options.address
    }

    /// Opens a new connection. It does not reconnect: a lost connection fails all later calls.
    pub async fn connect(&self) -> Result<Channel, ChannelError> {
        let address = self.address();
        let stream = timeout(CONNECT_TIMEOUT, self.open())
            .await
            .map_err(|_| ChannelError::Timeout { address: address.to_owned() })??;
        let mut stream = Some(TokioIo::new(stream));
        let connector = tower::service_fn(move |_| {
            std::future::ready(
                stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)),
            )
        });
        // tonic ignores TCP options for a connector of ours; `open` sets them.
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|_| ChannelError::Address { address: address.to_owned() })?
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let connecting = endpoint.connect_with_connector(connector);
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        let connected =
            connected.map_err(|_| ChannelError::Timeout { address: address.to_owned() })?;
        connected.map_err(|cause| ChannelError::Http2 { address: address.to_owned(), cause })
    }

    /// Adds token, cluster id and additional headers to a request. Reads the token's file.
    pub fn request<T>(&self, message: T) -> Result<tonic::Request<T>, ChannelError> {
        let mut request = tonic::Request::new(message);
        let metadata = request.metadata_mut();
        if let Some(token) = self.token()? {
            metadata.insert("authorization", token);
        }
        let cluster = ("clusterid".to_owned(), self.options.cluster_id.clone());
        for (name, value) in std::iter::once(&cluster).chain(&self.options.headers) {
            let invalid = || ChannelError::Header { name: name.clone() };
            let key: MetadataKey<Ascii> =
                name.to_ascii_lowercase().parse().map_err(|_| invalid())?;
            metadata.insert(key, value.parse().map_err(|_| invalid())?);
        }
        Ok(request)
    }

    fn token(&self) -> Result<Option<MetadataValue<Ascii>>, ChannelError> {
        let Some(path) = &self.options.token else {
            return Ok(None);
        };
        let token = read_text_file(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => ChannelError::TokenMissing { path: path.clone() },
            _ => ChannelError::ReadToken { path: path.clone(), cause },
        })?;
        let invalid = || ChannelError::TokenInvalid { path: path.clone() };
        let header = Zeroizing::new(format!("Bearer {}", token.trim()));
        if token.trim().is_empty() {
            return Err(invalid());
        }
        let mut value: MetadataValue<Ascii> = header.parse().map_err(|_| invalid())?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    async fn open(&self) -> Result<Box<dyn Stream>, ChannelError> {
        let ChannelOptions { address, root, server_name, plaintext, .. } = &*self.options;
        let (host, port) = host_and_port(address)?;
        let connect = |cause| ChannelError::Connect { address: address.clone(), cause };
        let tcp = TcpStream::connect((&*host, port)).await.map_err(connect)?;
        set_options(&tcp).map_err(connect)?;
        if *plaintext {
            return Ok(Box::new(tcp));
        }
        let identity = match &self.identity {
            Some(identity) => {
                let current = identity.borrow().clone();
                Some(current.ok_or(ChannelError::NoIdentity)?)
            }
            None => None,
        };
        let name = server_name.as_deref().unwrap_or(&host);
        let tls = tls::connect(tcp, address, name, root, identity).await?;
        Ok(Box::new(tls))
    }
}

/// Byte stream below HTTP/2.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Splits `HOST:PORT`. The host of an IPv6 address has no brackets.
fn host_and_port(address: &str) -> Result<(String, u16), ChannelError> {
    let invalid = || ChannelError::Address { address: address.to_owned() };
    let authority: Authority = address.parse().map_err(|_| invalid())?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = authority.port_u16().filter(|port| *port > 0).ok_or_else(invalid)?;
    if host.is_empty() || address.contains('@') {
        return Err(invalid());
    }
    Ok((host.to_owned(), port))
}

fn set_options(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(PING_INTERVAL).with_interval(PING_TIMEOUT);
    SockRef::from(tcp).set_tcp_keepalive(&keepalive)
}

/// Limit for name resolution, TCP and TLS together, and again for HTTP/2.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time before a ping.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Limit for the answer to a ping. A server that is gone without a word is noticed by it.
const PING_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
