//! One HTTP/1.1 connection, with a timeout for each of its phases.
//!
//! hyper has a single timer, which covers both an idle connection and an incoming request head. It
//! has no timer for a response that the client does not read. This module recognises the phases by
//! the bytes that pass through the stream.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tower::Service;

use super::connection_slots::{Slot, Source};
use super::limits::Limits;
use super::run_queue::RunQueue;
use super::shutdown::{self, ShutdownPhase};

/// Parameters for serving one connection.
pub(in crate::webhook) struct Terms<N> {
    pub(in crate::webhook) router: Router,
    pub(in crate::webhook) limits: Limits,
    pub(in crate::webhook) peer: SocketAddr,
    pub(in crate::webhook) slot: Arc<Slot>,
    pub(in crate::webhook) queue: RunQueue,
    pub(in crate::webhook) phases: watch::Receiver<ShutdownPhase>,
    /// Returns true if the connection must close after the response; called for each response.
    pub(in crate::webhook) is_last: N,
}

/// Serves requests until the client closes the connection, a phase exceeds its timeout, the process
/// shuts down, or a new connection displaces this one. On shutdown and displacement a request that
/// has arrived completely is answered first.
pub(in crate::webhook) async fn serve<S, N>(
    stream: S,
    terms: Terms<N>,
) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    N: Fn() -> bool + Clone + Send + 'static,
{
    let Terms { router, limits, peer, slot, queue, phases, is_last } = terms;
    let source = Source::from(peer.ip());
    let pace = Arc::new(Pace::new(limits, Arc::clone(&slot)));
    let service = {
        let (pace, phases) = (Arc::clone(&pace), phases.clone());
        service_fn(move |request: Request<Incoming>| {
            pace.enter(Phase::Review);
            let mut router = router.clone();
            let (pace, phases, is_last) = (Arc::clone(&pace), phases.clone(), is_last.clone());
            let queue = queue.clone();
            async move {
                // The slot counts a request as arrived only from its turn on. Until then the
                // connection can be displaced; otherwise requests sent without end would hold every
                // slot.
                let answering = async {
                    let mut request = request.map(|body| Arriving::body(body, Arc::clone(&pace)));
                    request.extensions_mut().insert(ConnectInfo(peer));
                    router.call(request).await
                };
                let mut answer: Result<Response<Body>, Infallible> =
                    queue.run(source, answering).await;
                if let Ok(answer) = &mut answer
                    && (*phases.borrow() > ShutdownPhase::Serving || is_last())
                {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                pace.enter(Phase::Reply);
                answer
            }
        })
    };
    let stream = TokioIo::new(Paced { stream, pace: Arc::clone(&pace) });
    let connection = http1::Builder::new()
        // `Pace` has its own timer.
        .header_read_timeout(None)
        .max_buf_size(BUFFER)
        .serve_connection(stream, service);
    let mut connection = pin!(connection);
    let mut end = pin!(async {
        tokio::select! {
            () = ended(phases, &slot) => false,
            () = slot.displaced() => true,
        }
    });
    let mut is_ending = false;
    let mut timer = pin!(sleep_until(pace.now().1));
    poll_fn(|context| {
        if let Poll::Ready(end) = connection.as_mut().poll(context) {
            return Poll::Ready(end.map_err(ConnectionError::Http));
        }
        if !is_ending && let Poll::Ready(is_displaced) = end.as_mut().poll(context) {
            is_ending = true;
            connection.as_mut().graceful_shutdown();
            if let Poll::Ready(end) = connection.as_mut().poll(context) {
                return Poll::Ready(end.map_err(ConnectionError::Http));
            }
            // The connection holds a partial request, or a response that the client does not read.
            if is_displaced && !slot.is_working() {
                return Poll::Ready(Ok(()));
            }
        }
        // The phase changes only while the connection is polled, so this sees every change.
        let (phase, deadline) = pace.now();
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context).map(|()| Err(ConnectionError::Expired(phase)))
    })
    .await
}

/// Completes when the connection has to close because the process shuts down. A connection without
/// a response so far may have been opened just before; it gets more time for its request.
pub(in crate::webhook) async fn ended(phases: watch::Receiver<ShutdownPhase>, slot: &Slot) {
    shutdown::ended(phases).await;
    if !slot.was_answered() {
        sleep(LAST_REQUEST).await;
    }
}

/// Abnormal end of a connection.
#[derive(Debug)]
pub(in crate::webhook) enum ConnectionError {
    /// The client violated the protocol or broke the connection.
    Http(hyper::Error),
    /// A phase exceeded its timeout.
    Expired(Phase),
}

/// Phase of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::webhook) enum Phase {
    /// Waiting for a request.
    Idle,
    /// Receiving a request head.
    Head,
    /// Answering a request, which includes reading its body.
    Review,
    /// Sending the response.
    Reply,
}

impl Phase {
    /// Returns the name of the phase in logs and labels.
    pub(in crate::webhook) fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Head => "head",
            Self::Review => "review",
            Self::Reply => "reply",
        }
    }
}

/// Current phase of a connection, and its deadline.
struct Pace {
    limits: Limits,
    slot: Arc<Slot>,
    now: Mutex<(Phase, Instant)>,
}

impl Pace {
    fn new(limits: Limits, slot: Arc<Slot>) -> Self {
        // Go's HTTP client dials ahead and keeps an unneeded connection in its idle pool. If the
        // server closed such a connection, the next call on it would fail: Go does not retry a call
        // on a connection that was never used. A new connection therefore gets the idle timeout.
        let now = Mutex::new((Phase::Idle, Instant::now() + limits.idle));
        Self { limits, slot, now }
    }

    fn now(&self) -> (Phase, Instant) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        let time = match phase {
            Phase::Idle => self.limits.idle,
            Phase::Head => self.limits.head,
            Phase::Review => self.limits.review,
            Phase::Reply => self.limits.reply,
        };
        match phase {
            Phase::Idle => self.slot.answer(),
            // The first bytes of a head are no step.
            Phase::Head => {}
            Phase::Review | Phase::Reply => self.slot.step(),
        }
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (phase, Instant::now() + time);
    }

    /// Enters `next` if the connection is in `from`.
    fn leave(&self, from: Phase, next: Phase) {
        if self.now().0 == from {
            self.enter(next);
        }
    }
}

/// Body of a request. Its end marks the connection's slot as working.
struct Arriving {
    body: Incoming,
    pace: Arc<Pace>,
}

impl Arriving {
    fn body(body: Incoming, pace: Arc<Pace>) -> Body {
        let arriving = Self { body, pace };
        if arriving.body.is_end_stream() {
            arriving.end();
        }
        Body::new(arriving)
    }

    fn end(&self) {
        // The rest of a body may also be discarded after the response.
        if self.pace.now().0 == Phase::Review {
            self.pace.slot.work();
        }
    }
}

impl hyper::body::Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.end();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Stream that reports to its [`Pace`] the start of a request head and the end of a response.
struct Paced<S> {
    stream: S,
    pace: Arc<Pace>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.pace.leave(Phase::Idle, Phase::Head);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.pace.leave(Phase::Reply, Phase::Idle);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Size of the read buffer in bytes, and thus the limit of a request head. One more piece of this
/// size may arrive before hyper checks the limit. A review's body is read piece by piece.
const BUFFER: usize = 32 * 1024;
/// Time for the first request of a connection without a response, when the process ends.
const LAST_REQUEST: Duration = Duration::from_secs(2);
