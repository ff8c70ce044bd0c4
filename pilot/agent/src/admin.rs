//! Client of Envoy's admin interface on loopback.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::{FullBody, send};

/// Client of one Envoy's admin interface. Each request uses a connection of its own.
#[derive(Clone, Debug)]
pub struct Admin {
    address: SocketAddr,
    timeout: Duration,
}

impl Admin {
    /// Returns a client of the admin interface at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, timeout: TIMEOUT }
    }

    /// Changes the timeout of a request, 5 s by default.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sends a GET request and returns the body of a successful response.
    pub async fn get(&self, path: &str) -> Result<String, AdminError> {
        self.text(Method::GET, path).await
    }

    /// Sends a POST request and returns the body of a successful response.
    pub async fn post(&self, path: &str) -> Result<String, AdminError> {
        self.text(Method::POST, path).await
    }

    /// Returns the statistics that match a regular expression.
    pub async fn stats(&self, filter: &str) -> Result<Stats, AdminError> {
        // The regular expressions of callers need no escaping, except these characters.
        let filter = filter.replace('%', "%25").replace('+', "%2B").replace('&', "%26");
        self.get(&format!("/stats?filter={filter}")).await.map(|text| Stats::parse(&text))
    }

    /// Sends a GET request with additional headers and returns the response, successful or not,
    /// with an unread body. The timeout applies up to the response's headers.
    pub async fn stream(
        &self,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Incoming>, AdminError> {
        self.within(path, self.send(Method::GET, path, headers)).await
    }

    async fn text(&self, method: Method, path: &str) -> Result<String, AdminError> {
        self.within(path, async {
            let response = self.send(method, path, &HeaderMap::new()).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), BODY_LIMIT).collect().await;
            let body = body.map_err(|source| match source.downcast::<hyper::Error>() {
                Ok(source) => AdminError::Exchange { path: path.to_owned(), source: *source },
                Err(source) => {
                    debug_assert!(source.is::<LengthLimitError>());
                    AdminError::TooLong { path: path.to_owned(), limit: BODY_LIMIT }
                }
            })?;
            let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            if status.is_success() {
                return Ok(text);
            }
            let text = text.trim().to_owned();
            Err(AdminError::Status { path: path.to_owned(), status, text })
        })
        .await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Incoming>, AdminError> {
        let stream = TcpStream::connect(self.address)
            .await
            .map_err(|source| AdminError::Connect { address: self.address, source })?;
        let mut request = Request::builder().method(method).uri(path);
        if let Some(all) = request.headers_mut() {
            all.extend(headers.clone());
        }
        let request = request
            .header(HOST, self.address.to_string())
            .header(CONNECTION, "close")
            .body(FullBody::default())
            .map_err(|source| AdminError::Request { path: path.to_owned(), source })?;
        send(stream, request)
            .await
            .map_err(|source| AdminError::Exchange { path: path.to_owned(), source })
    }

    async fn within<T>(
        &self,
        path: &str,
        exchange: impl Future<Output = Result<T, AdminError>>,
    ) -> Result<T, AdminError> {
        match timeout(self.timeout, exchange).await {
            Ok(result) => result,
            Err(_) => Err(AdminError::Timeout { path: path.to_owned(), after: self.timeout }),
        }
    }
}

/// Counters and gauges by name, from the text form of `/stats`. Histograms and text values are
/// omitted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stats(BTreeMap<String, u64>);

impl Stats {
    /// Parses lines of the form `NAME: NUMBER`.
    pub fn parse(text: &str) -> Self {
        let parse = |line: &str| {
            let (name, value) = line.rsplit_once(": ")?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        Self(text.lines().filter_map(parse).collect())
    }

    /// Returns a statistic, or `None` if Envoy does not report it.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Returns all statistics, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// Failed request to Envoy's admin interface.
#[derive(Debug, Error)]
pub enum AdminError {
    /// No connection: Envoy is not running, or has not opened its admin interface yet.
    #[error("Envoy's admin interface at {address} does not accept connections")]
    Connect {
        /// Address of the admin interface.
        address: SocketAddr,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// Path that is no valid URI.
    #[error("{path} is not a valid path of Envoy's admin interface")]
    Request {
        /// Path of the request.
        path: String,
        /// Error of the parser.
        source: hyper::http::Error,
    },
    /// Broken connection or invalid response.
    #[error("Envoy's admin interface: {path}: the exchange failed")]
    Exchange {
        /// Path of the request.
        path: String,
        /// Error of the HTTP client.
        source: hyper::Error,
    },
    /// Response with an error status.
    #[error("Envoy's admin interface: {path}: {status}: {text}")]
    Status {
        /// Path of the request.
        path: String,
        /// Status of the response.
        status: StatusCode,
        /// Body of the response.
        text: String,
    },
    /// Body above the limit.
    #[error("Envoy's admin interface: {path}: the response is longer than {limit} bytes")]
    TooLong {
        /// Path of the request.
        path: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// No complete response within the timeout.
    #[error("Envoy's admin interface: {path}: no response within {after:?}")]
    Timeout {
        /// Path of the request.
        path: String,
        /// The timeout.
        after: Duration,
    },
}

/// Envoy answers from its main thread, which may be busy for seconds with a large configuration.
const TIMEOUT: Duration = Duration::from_secs(5);
const BODY_LIMIT: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Starts a server that answers one connection with these bytes and returns the request.
    async fn server(answer: Vec<u8>) -> (Admin, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = Admin::new(listener.local_addr().unwrap());
        let request = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            // The client closes early if the body is above its limit.
            let _ = stream.write_all(&answer).await;
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        (admin, request)
    }

    #[test]
    fn stats_are_parsed_by_name() {
        let stats = Stats::parse(
            "cluster.outbound|80||web.shop: x.upstream_cx_total: 3\nserver.state: 0\n\
             server.version: \"text\"\nlistener.cx_length_ms: P0(nan,1) P25(nan,2)\n\n",
        );
        assert_eq!(stats.get("server.state"), Some(0));
        assert_eq!(stats.get("server.live"), None);
        assert_eq!(stats.get("cluster.outbound|80||web.shop: x.upstream_cx_total"), Some(3));
        assert_eq!(stats.iter().count(), 2);
    }

    #[tokio::test]
    async fn stats_filter_is_escaped() {
        let (admin, request) = server(b"HTTP/1.1 200 OK\r\n\r\na.b: 1\n".to_vec()).await;
        let stats = admin.stats("^a.+(b|c)$").await.unwrap();
        assert_eq!(stats.get("a.b"), Some(1));
        let request = request.await.unwrap();
        assert!(request.starts_with("GET /stats?filter=^a.%2B(b|c)$ HTTP/1.1\r\n"), "{request}");
    }

    #[tokio::test]
    async fn error_status_is_an_error_with_its_text() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\n\r\nPRE_INITIALIZING\n".to_vec();
        let (admin, _) = server(answer).await;
        let error = admin.get("/ready").await.unwrap_err().to_string();
        assert!(error.ends_with("/ready: 503 Service Unavailable: PRE_INITIALIZING"), "{error}");
    }

    #[tokio::test]
    async fn endless_body_is_an_error() {
        let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        answer.resize(BODY_LIMIT + 1000, b'x');
        let (admin, _) = server(answer).await;
        let error = admin.post("/config_dump").await.unwrap_err();
        assert!(matches!(error, AdminError::TooLong { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn silent_envoy_is_a_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = Admin::new(listener.local_addr().unwrap());
        let error = admin.with_timeout(Duration::from_millis(50)).get("/ready").await.unwrap_err();
        assert!(matches!(error, AdminError::Timeout { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn stopped_envoy_is_a_connection_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = Admin::new(listener.local_addr().unwrap());
        drop(listener);
        let error = admin.get("/ready").await.unwrap_err();
        assert!(matches!(error, AdminError::Connect { .. }), "{error:?}");
    }
}
