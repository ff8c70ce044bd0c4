//! Merged metrics: the agent's own, Envoy's and the application's, streamed in this order.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{join, join_all};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Request, Response, StatusCode, Uri};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::time::{Instant, timeout};

use super::failure_log::FailureLog;
use super::merge::{END, InvalidLine, MergeSource, MetricsFormat, PartScanner};
use super::metrics::{Metrics, own_page};
use super::page::{PIECE, PageBody, PageWriter, ReaderGone};
use super::scrape_request::{LONGEST, ScrapeRequest, TEXT};
use super::targets::ScrapeTarget;
use crate::admin::{Admin, AdminError};
use crate::app::{Dialer, ProbeError, Scheme, TlsSetupError, UnverifiedTls, redirect_within};
use crate::connections::{ConnectionLimits, ConnectionSlot, Connections, RequestInProgress};
use crate::http::{FullBody, send};

/// Client of all sources of the merged metrics.
#[derive(Debug)]
pub struct Scraper {
    admin: Option<Admin>,
    dialer: Dialer,
    tls: UnverifiedTls,
    targets: Mutex<Arc<[ScrapeTarget]>>,
    registry: Arc<Registry>,
    metrics: Metrics,
    failures: FailureLog,
    running: Arc<Connections>,
}

/// A page whose status and headers are known.
pub(super) struct Page {
    pub(super) content_type: HeaderValue,
    pub(super) body: PageBody,
}

impl Scraper {
    /// Returns a scraper of the agent's registry, of Envoy unless there is none, and of the
    /// application's targets. The registry includes the metrics, which count the scrapes.
    pub fn new(
        registry: Arc<Registry>,
        metrics: Metrics,
        admin: Option<Admin>,
        dialer: Dialer,
        targets: Vec<ScrapeTarget>,
    ) -> Result<Self, TlsSetupError> {
        let running = Connections::new(SCRAPE_LIMITS);
        let targets = Mutex::new(targets.into());
        let failures = FailureLog::default();
        let tls = UnverifiedTls::new()?;
        Ok(Self { admin, dialer, tls, targets, registry, metrics, failures, running })
    }

    /// Sets the application's targets of later scrapes.
    pub fn set_targets(&self, targets: Vec<ScrapeTarget>) {
        *self.targets.lock().unwrap_or_else(PoisonError::into_inner) = targets.into();
        self.failures.clear();
    }

    fn targets(&self) -> Arc<[ScrapeTarget]> {
        Arc::clone(&self.targets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens all sources and starts the page. Returns `None` if too many scrapes of the client, or
    /// of all, are running.
    pub(super) async fn scrape(
        self: Arc<Self>,
        client: IpAddr,
        request: ScrapeRequest,
    ) -> Option<Page> {
        let (slot, _never) = self.running.open(client)?;
        // Another scrape does not take its place.
        let permit = (slot.start_request(), slot);
        let start = Instant::now();
        self.metrics.count_scrape();
        let (envoy, answers) = join(self.open_envoy(&request), self.open_targets(&request)).await;
        let openmetrics = answers.iter().find_map(|answer| {
            (answer.format == MetricsFormat::OpenMetrics).then(|| answer.content_type.clone())
        });
        let format = match openmetrics {
            Some(_) => MetricsFormat::OpenMetrics,
            None => MetricsFormat::Text,
        };
        let (writer, body) = PageWriter::new();
        let until = start + request.page_timeout();
        let parts =
            Parts { format, envoy, answers, until, source_timeout: request.source_timeout() };
        tokio::spawn(self.stream(parts, writer, permit));
        let content_type = openmetrics.unwrap_or(HeaderValue::from_static(TEXT_PAGE));
        Some(Page { content_type, body })
    }

    async fn open_envoy(&self, request: &ScrapeRequest) -> Option<Incoming> {
        let admin = self.admin.as_ref()?;
        let path = request.path(&PathAndQuery::from_static(ENVOY_PATH));
        // Envoy would answer in protobuf if Prometheus accepts it.
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(TEXT))]);
        let opened = timeout(request.header_timeout(), admin.stream(path.as_str(), &headers));
        let opened = match opened.await {
            Ok(Ok(response)) => expect_text(&response).map(|_| response.into_body()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(ScrapeError::Timeout),
        };
        self.count_failure(MergeSource::Envoy, "Envoy", opened)
    }

    /// Opens all targets, in their order. If their formats differ, those in `OpenMetrics` are asked
    /// for text: a page has one format.
    async fn open_targets(&self, request: &ScrapeRequest) -> Vec<TargetAnswer> {
        let deadline = Instant::now() + request.header_timeout();
        let open = async |target: &ScrapeTarget, request: &ScrapeRequest| {
            let opened = tokio::time::timeout_at(deadline, self.open(target, request)).await;
            opened.unwrap_or(Err(ScrapeError::Timeout))
        };
        let targets = self.targets();
        let opened = join_all(targets.iter().map(|target| open(target, request))).await;
        let has = |format| opened.iter().flatten().any(|answer| answer.format == format);
        let mixed = has(MetricsFormat::Text) && has(MetricsFormat::OpenMetrics);
        let text = request.in_text();
        let opened =
            join_all(targets.iter().zip(opened).map(async |(target, opened)| match opened {
                Ok(answer) if mixed && answer.format == MetricsFormat::OpenMetrics => {
                    drop(answer);
                    let answer = open(target, &text).await?;
                    let in_text = answer.format == MetricsFormat::Text;
                    if in_text { Ok(answer) } else { Err(ScrapeError::Mixed) }
                }
                opened => opened,
            }));
        let opened = opened.await.into_iter().zip(&*targets);
        opened
            .filter_map(|(answer, target)| {
                let name = format!("the application's {}{}", target.port, target.path);
                self.count_failure(MergeSource::Application, &name, answer)
            })
            .collect()
    }

    async fn open(
        &self,
        target: &ScrapeTarget,
        request: &ScrapeRequest,
    ) -> Result<TargetAnswer, ScrapeError> {
        let mut path = request.path(&target.path);
        for _ in 0..REDIRECT_LIMIT {
            let place = (target.scheme, target.port);
            let response = self.get(place, &path, request).await?;
            if let Some(next) = redirect_within(&response, "localhost", place, &path) {
                path = next;
                continue;
            }
            let content_type = response.headers().get(CONTENT_TYPE).cloned();
            return Ok(TargetAnswer {
                name: format!("the application's {}{}", target.port, target.path),
                format: expect_text(&response)?,
                content_type: content_type.unwrap_or(HeaderValue::from_static(TEXT_PAGE)),
                body: response.into_body(),
            });
        }
        Err(ScrapeError::Redirects)
    }

    async fn get(
        &self,
        (scheme, port): (Scheme, u16),
        path: &PathAndQuery,
        request: &ScrapeRequest,
    ) -> Result<Response<Incoming>, ScrapeError> {
        let stream = self.dialer.connect_locally(port).await?;
        let mut get = Request::new(FullBody::default());
        *get.uri_mut() = Uri::from(path.clone());
        *get.headers_mut() = request.headers.clone();
        let host = HeaderValue::try_from(format!("localhost:{port}"));
        get.headers_mut().extend(host.ok().map(|host| (HOST, host)));
        get.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let answer = match scheme {
            Scheme::Http => send(stream, get).await,
            Scheme::Https => send(self.tls.handshake(stream).await?, get).await,
        };
        answer.map_err(ScrapeError::Exchange)
    }

    async fn stream(
        self: Arc<Self>,
        parts: Parts,
        mut page: PageWriter,
        _permit: (RequestInProgress, ConnectionSlot),
    ) {
        let stream = async {
            self.stream_own(parts.format, &mut page).await?;
            let mut left = u32::try_from(parts.answers.len()).unwrap_or(u32::MAX);
            if let Some(body) = parts.envoy {
                let limits = Limits::new(parts.until, parts.source_timeout, left.saturating_add(1));
                let scanner = PartScanner::new(MergeSource::Envoy, parts.format);
                let streamed = stream_part(body, scanner, limits, &mut page).await?;
                self.read(MergeSource::Envoy, "Envoy", streamed);
            }
            for answer in parts.answers {
                let limits = Limits::new(parts.until, parts.source_timeout, left);
                left = left.saturating_sub(1);
                let scanner = PartScanner::new(MergeSource::Application, parts.format);
                let streamed = stream_part(answer.body, scanner, limits, &mut page).await?;
                self.read(MergeSource::Application, &answer.name, streamed);
            }
            if parts.format == MetricsFormat::OpenMetrics {
                page.buffer.extend_from_slice(END);
            }
            page.end().await
        };
        // A page that is given up breaks the connection, so that it does not look complete.
        if !matches!(timeout(LONGEST, stream).await, Ok(Ok(()))) {
            tracing::debug!("a reader of the merged metrics left or was too slow");
        }
    }

    async fn stream_own(
        &self,
        format: MetricsFormat,
        page: &mut PageWriter,
    ) -> Result<(), ReaderGone> {
        let Ok(own) = own_page(&self.registry, format) else {
            self.metrics.count_failure(MergeSource::Agent);
            return Ok(());
        };
        let mut scanner = PartScanner::new(MergeSource::Agent, format);
        for piece in own.as_bytes().chunks(PIECE) {
            // Only lines of the application are checked.
            let _ = scanner.push(piece, &mut page.buffer);
            page.flush_if_full().await?;
        }
        Ok(())
    }

    /// Counts the failure of a source whose page began.
    fn read(&self, source: MergeSource, name: &str, result: Result<(), ScrapeError>) {
        if self.count_failure(source, name, result).is_some() {
            self.failures.forget(name);
        }
    }

    /// Counts a failure, and logs it unless it is the source's last one.
    fn count_failure<T>(
        &self,
        source: MergeSource,
        name: &str,
        result: Result<T, ScrapeError>,
    ) -> Option<T> {
        result
            .map_err(|error| {
                self.metrics.count_failure(source);
                let error = format!("{:#}", anyhow::Error::new(error));
                if self.failures.insert(name, &error) {
                    tracing::warn!("metrics of {name} are missing or incomplete: {error}");
                }
            })
            .ok()
    }
}

struct Parts {
    format: MetricsFormat,
    envoy: Option<Incoming>,
    answers: Vec<TargetAnswer>,
    until: Instant,
    source_timeout: Duration,
}

struct TargetAnswer {
    name: String,
    format: MetricsFormat,
    content_type: HeaderValue,
    body: Incoming,
}

/// Limits of one source.
#[derive(Clone, Copy)]
struct Limits {
    /// End of the source's share of the page's time.
    until: Instant,
    /// Time that the page may wait for the source. Waiting for the reader does not count.
    wait: Duration,
}

impl Limits {
    /// Returns the limits of the first of these sources that are left, so that a slow one leaves
    /// time for the others.
    fn new(page_until: Instant, wait: Duration, sources_left: u32) -> Self {
        let now = Instant::now();
        let share = page_until.saturating_duration_since(now) / sources_left.max(1);
        Self { until: now + share, wait }
    }
}

/// Streams one source to its end or to a limit. The outer error is the reader's.
async fn stream_part(
    mut body: Incoming,
    mut scanner: PartScanner,
    mut limits: Limits,
    page: &mut PageWriter,
) -> Result<Result<(), ScrapeError>, ReaderGone> {
    let mut left = BYTE_LIMIT;
    let ended = loop {
        let asked = Instant::now();
        let wait = limits.wait.min(limits.until.saturating_duration_since(asked));
        if wait.is_zero() {
            break Err(ScrapeError::Timeout);
        }
        let data = match timeout(wait, body.frame()).await {
            Err(_) => break Err(ScrapeError::Timeout),
            Ok(None) => break Ok(()),
            Ok(Some(Err(error))) => break Err(ScrapeError::Exchange(error)),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
        limits.wait = limits.wait.saturating_sub(asked.elapsed());
        if data.len() > left {
            break Err(ScrapeError::TooLong);
        }
        left -= data.len();
        let mut scanned = Ok(());
        for piece in data.chunks(PIECE) {
            scanned = scanner.push(piece, &mut page.buffer);
            page.flush_if_full().await?;
            if scanned.is_err() {
                break;
            }
        }
        if let Err(error) = scanned {
            return Ok(Err(ScrapeError::InvalidLine(error)));
        }
    };
    let finished = scanner.finish(ended.is_ok(), &mut page.buffer);
    Ok(ended.and(finished.map_err(ScrapeError::InvalidLine)))
}

/// Returns the format of a page that can be merged. Applications name their text by many types, such
/// as `text/html`; the check of each line refuses what is none. Prometheus names its binary format.
fn expect_text<T>(response: &Response<T>) -> Result<MetricsFormat, ScrapeError> {
    if response.status() != StatusCode::OK {
        return Err(ScrapeError::Status(response.status()));
    }
    let header = |name| {
        let value =
            response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let value = value.unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    };
    let coding = header(CONTENT_ENCODING);
    if !matches!(&*coding, "" | "identity") {
        return Err(ScrapeError::Coding(coding));
    }
    match &*header(CONTENT_TYPE) {
        "application/openmetrics-text" => Ok(MetricsFormat::OpenMetrics),
        PROTOBUF => Err(ScrapeError::Protobuf),
        _ => Ok(MetricsFormat::Text),
    }
}

/// Failure of one source.
#[derive(Debug, Error)]
enum ScrapeError {
    #[error(transparent)]
    Connect(#[from] ProbeError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error("the exchange failed: {0}")]
    Exchange(hyper::Error),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("the content type is {PROTOBUF}, which cannot be merged and was not offered")]
    Protobuf,
    #[error("the content coding {0:?} was not offered")]
    Coding(String),
    #[error("another target answers in text, and this one in OpenMetrics even when asked for text")]
    Mixed,
    #[error("more than {REDIRECT_LIMIT} redirects")]
    Redirects,
    #[error("no answer in time")]
    Timeout,
    #[error(transparent)]
    InvalidLine(InvalidLine),
    #[error("the page is longer than {BYTE_LIMIT} bytes; the rest is omitted")]
    TooLong,
}

/// Limits of concurrent scrapes, which bound their memory.
const SCRAPE_LIMITS: ConnectionLimits = ConnectionLimits { total: 8, client: 2 };
const ENVOY_PATH: &str = "/stats/prometheus";
const PROTOBUF: &str = "application/vnd.google.protobuf";
const TEXT_PAGE: &str = "text/plain; version=0.0.4; charset=utf-8";
const REDIRECT_LIMIT: usize = 5;
/// Some ten times the longest pages that users report.
const BYTE_LIMIT: usize = 128 * 1024 * 1024;
