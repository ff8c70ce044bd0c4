//! Streams of a server: a task per stream that drives a [`Session`].

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Extensions;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::messages::Node;
use crate::request_stream::RequestStream;
use crate::server::DiscoveryHandler;
use crate::service::Variant;
use crate::session::{self, Close, Event, Limits, Resources, Session, TypeView, decode_node};

/// Source of the published states.
pub trait ResourceSource: Clone + Send + Sync + 'static {
    /// Published state of one proxy.
    type Resources: Resources + Clone + Send + Sync + 'static;

    /// Admits a proxy, and returns the states published for it. `extensions` are those of the HTTP
    /// request: the acceptor puts the caller's identity there.
    fn connect(
        &self,
        variant: Variant,
        node: Node,
        extensions: &Extensions,
    ) -> impl Future<Output = Result<Connection<Self::Resources>, Status>> + Send;
}

/// Admitted stream as its source sees it.
pub struct Connection<R> {
    /// States published for the proxy.
    pub published: watch::Receiver<R>,
    /// Observer of the stream, dropped when the stream ends.
    pub observer: Box<dyn Observer>,
    /// Requests for the state of the session, for debug pages.
    pub inspections: mpsc::Receiver<oneshot::Sender<Vec<TypeView>>>,
}

/// Observer of a stream, for metrics.
pub trait Observer: Send {
    /// Takes a request of the client. `_is_expired` is [`Session::is_expired`].
    fn received(&mut self, _request: &session::Request<'_>, _is_expired: bool) {}

    /// Takes a newer published state.
    fn changed(&mut self) {}

    /// Takes a response that waits to be sent.
    fn sent(&mut self, _response: &session::Response) {}

    /// Called after the responses to a request or a newer state. `_is_in_flight` is
    /// [`Session::is_in_flight`].
    fn stepped(&mut self, _is_in_flight: bool) {}
}

/// Observes nothing.
impl Observer for () {}

/// Discovery service with a [`Session`] per stream.
#[derive(Clone, Debug)]
pub struct Streams<S> {
    source: S,
    limits: Limits,
    send_timeout: Duration,
}

impl<S: ResourceSource> Streams<S> {
    /// Creates the service. A client that does not read a response within `send_timeout` loses its
    /// stream, and its connection if the acceptor has put a [`ConnectionCloser`] into the request.
    pub fn new(source: S, limits: Limits, send_timeout: Duration) -> Self {
        Self { source, limits, send_timeout }
    }
}

/// Handle to close the connection of a stream, in the extensions of its HTTP request.
///
/// The end of a stream waits for flow control. A client that reads nothing would keep the stream's
/// memory until its connection ends.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCloser(Arc<Notify>);

impl ConnectionCloser {
    /// Waits until the connection has to be closed.
    pub async fn closed(&self) {
        self.0.notified().await;
    }
}

impl<S: ResourceSource> DiscoveryHandler for Streams<S> {
    type Responses = ReceiverStream<Result<Bytes, Status>>;

    async fn open(
        &self,
        variant: Variant,
        requests: Request<RequestStream>,
    ) -> Result<Response<Self::Responses>, Status> {
        // One frame: more would wait in memory for a client that does not read.
        let (sender, receiver) = mpsc::channel(1);
        let (_, extensions, requests) = requests.into_parts();
        let closer = extensions.get::<ConnectionCloser>().cloned();
        let stream = Stream {
            variant,
            limits: self.limits,
            send_timeout: self.send_timeout,
            source: self.source.clone(),
            requests,
            sender: sender.clone(),
            opened: Instant::now(),
        };
        tokio::spawn(async move {
            let Err(status) = stream.run(extensions).await else { return };
            let _ = sender.try_send(Err(status.clone()));
            if let Some(closer) = closer.filter(|_| status.code() == tonic::Code::DeadlineExceeded)
            {
                closer.0.notify_one();
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Input of a stream; a request is still encoded.
enum StreamInput<R> {
    Frame(Bytes),
    Published(R),
    Timer,
}

struct Stream<S> {
    variant: Variant,
    limits: Limits,
    send_timeout: Duration,
    source: S,
    requests: RequestStream,
    sender: mpsc::Sender<Result<Bytes, Status>>,
    opened: Instant,
}

impl<S: ResourceSource> Stream<S> {
    /// Runs the stream until its client leaves.
    async fn run(mut self, extensions: Extensions) -> Result<(), Status> {
        let Some((first, node)) = self.first_request().await? else { return Ok(()) };
        let node = node.ok_or_else(|| Close::NoNode.status())?;
        let connection = self.source.connect(self.variant, node, &extensions).await?;
        let Connection { mut published, mut observer, mut inspections } = connection;
        // The credentials have served their purpose.
        drop(extensions);
        let resources = published.borrow_and_update().clone();
        let mut session = Session::new(self.variant, self.limits, resources);
        let mut frames = VecDeque::new();
        let mut input = Some(StreamInput::<S::Resources>::Frame(first));
        let mut blocked_since = None;
        loop {
            if let Some(input) = input.take() {
                let event = match &input {
                    StreamInput::Frame(frame) => {
                        let request = session::Request::decode(self.variant, frame, &self.limits);
                        let request = request.map_err(|close| close.status())?;
                        observer.received(&request, session.is_expired(&request));
                        Event::Request(request)
                    }
                    StreamInput::Published(resources) => {
                        observer.changed();
                        Event::Published(resources.clone())
                    }
                    StreamInput::Timer => Event::Timer,
                };
                let responses = session.step(self.opened.elapsed(), event);
                let responses = responses.map_err(|close| close.status())?;
                for response in responses {
                    observer.sent(&response);
                    // Encoded at once: the session forgets the bodies.
                    frames.push_back(response.encode(self.variant));
                }
                observer.stepped(session.is_in_flight());
            }
            if frames.is_empty() && self.sender.capacity() > 0 {
                blocked_since = None;
            } else {
                blocked_since.get_or_insert_with(Instant::now);
            }
            let send_by = blocked_since.map(|since| since + self.send_timeout);
            let timer = session.deadline().map(|deadline| self.opened + deadline);
            tokio::select! {
                biased;
                permit = self.sender.reserve(), if !frames.is_empty() => {
                    // Without a receiver the client has left.
                    let Ok(permit) = permit else { return Ok(()) };
                    if let Some(frame) = frames.pop_front() {
                        permit.send(Ok(frame));
                    }
                    blocked_since = None;
                }
                () = at(send_by) => {
                    if frames.is_empty() && self.sender.capacity() > 0 {
                        continue;
                    }
                    return Err(Close::NotReading { limit: self.send_timeout }.status());
                }
                // An honest client has one response in flight per type.
                request = self.requests.message(), if frames.len() <= self.limits.types => {
                    let Ok(Some(frame)) = request else { return Ok(()) };
                    input = Some(StreamInput::Frame(frame));
                }
                // What waits in memory is sent before newer states are encoded.
                changed = published.changed(), if frames.is_empty() => {
                    // Without a publisher the server is shutting down.
                    if changed.is_err() {
                        return Err(Status::unavailable("the control plane is shutting down"));
                    }
                    input = Some(StreamInput::Published(published.borrow_and_update().clone()));
                }
                () = at(timer) => input = Some(StreamInput::Timer),
                // A caller that has left does not need the answer.
                Some(inspection) = inspections.recv() => drop(inspection.send(session.view())),
            }
        }
    }

    async fn first_request(&mut self) -> Result<Option<(Bytes, Option<Node>)>, Status> {
        let limit = self.limits.first_request;
        let first = pin!(self.requests.message());
        let first = timeout_at(self.opened + limit, first).await;
        let first = first.map_err(|_| Close::FirstRequest { limit }.status())?;
        let Ok(Some(frame)) = first else { return Ok(None) };
        let node = decode_node(self.variant, &frame, &self.limits);
        let node = node.map_err(|close| close.status())?;
        Ok(Some((frame, node)))
    }
}

/// Waits until an instant, or for ever.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
