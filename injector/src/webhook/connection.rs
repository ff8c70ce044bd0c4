//! One connection: HTTP/1.1 with a time for each of its phases.
//!
//! hyper has one timer, which runs both while a connection is idle and while a head is being read,
//! and none for an answer that nobody takes. The phases are told apart here by what passes through
//! the stream.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};
use tower::Service;

use super::limits::Limits;

/// Serves requests until the client ends the connection, a phase takes too long, or the watcher
/// asks for the end, which comes after the request in flight.
pub(super) async fn serve<S>(
    stream: S,
    router: Router,
    limits: Limits,
    watcher: Watcher,
) -> Result<(), ConnectionError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pace = Arc::new(Pace::new(limits));
    let service = {
        let pace = Arc::clone(&pace);
        service_fn(move |request: Request<Incoming>| {
            pace.enter(Phase::Review);
            let answer = router.clone().call(request.map(Body::new));
            let pace = Arc::clone(&pace);
            async move {
                let answer: Result<Response<Body>, Infallible> = answer.await;
                pace.enter(Phase::Reply);
                answer
            }
        })
    };
    let stream = TokioIo::new(Paced { stream, pace: Arc::clone(&pace) });
    let connection = http1::Builder::new()
        // The timer of `Pace` takes its place.
        .header_read_timeout(None)
        .max_buf_size(BUFFER)
        .serve_connection(stream, service);
    let mut connection = pin!(watcher.watch(connection));
    let mut timer = pin!(sleep_until(pace.now().1));
    poll_fn(|context| {
        if let Poll::Ready(end) = connection.as_mut().poll(context) {
            return Poll::Ready(end.map_err(ConnectionError::Http));
        }
        // Only polling the connection changes its phase, so this sees every change.
        let (phase, deadline) = pace.now();
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context).map(|()| Err(ConnectionError::Expired(phase)))
    })
    .await
}

/// Why a connection ended otherwise than by the client's wish.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// The client broke the protocol or the connection.
    Http(hyper::Error),
    /// A phase took too long.
    Expired(Phase),
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// Nothing: it waits for a request.
    Idle,
    /// A request's head is arriving.
    Head,
    /// A request is being answered, which includes reading its body.
    Review,
    /// The answer is being sent.
    Reply,
}

impl Phase {
    /// The word of logs and labels.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Head => "head",
            Self::Review => "review",
            Self::Reply => "reply",
        }
    }
}

/// The phase of a connection and when it has to be over.
struct Pace {
    limits: Limits,
    now: Mutex<(Phase, Instant)>,
}

impl Pace {
    fn new(limits: Limits) -> Self {
        // Go's client dials ahead, and keeps a connection that it did not need after all among its
        // idle ones. Closed under its hands, that fails the next call: one on a connection that was
        // never used is not repeated.
        Self { limits, now: Mutex::new((Phase::Idle, Instant::now() + limits.idle)) }
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
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (phase, Instant::now() + time);
    }

    /// Goes on to `next` where the connection is in `from`.
    fn leave(&self, from: Phase, next: Phase) {
        if self.now().0 == from {
            self.enter(next);
        }
    }
}

/// A stream that tells its [`Pace`] when a head begins and when an answer has been taken.
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

/// Also the limit of a request's head; a review's body is read piece by piece.
const BUFFER: usize = 64 * 1024;
