//! One stream of Envoy and its upstream stream.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use pilot_xds::client;
use pilot_xds::frame::{FrameError, Header};
use pilot_xds::request_stream::RequestStream;
use pilot_xds::service::{DiscoveryService, Variant};
use pilot_xds::type_urls;
use tokio::sync::mpsc;
use tonic::Status;

use super::State;
use super::answered::AnsweredStream;
use super::metrics::Termination;
use super::own_types::NameTable;
use super::queue::{MAX_BYTES, QueueFull, QueuedRequests, Requests, queue};
use super::subscription::{self, OwnType, Update};
use crate::channel::{ChannelError, Server};
use crate::health::Part;

/// Relays a stream until either end closes it. Envoy gets the reason.
pub(super) async fn relay(
    state: Arc<State>,
    variant: Variant,
    downstream: RequestStream,
    responses: mpsc::Sender<Result<Bytes, Status>>,
) {
    let _open = OpenStream::new(&state);
    let server = state.control_plane.server();
    let (requests, queued) = queue(state.metrics.queued_requests.clone());
    let stream = Stream {
        state: &state,
        server: &server,
        variant,
        requests,
        responses: &responses,
        answered: state.answered.open(),
    };
    let Err(end) = tokio::select! {
        end = stream.receive_requests(downstream) => end,
        end = stream.receive_responses(queued) => end,
        () = responses.closed() => Err(End::DownstreamClosed),
    };
    drop(stream);
    state.record(&server, &end);
    if let Some(status) = end.status() {
        // An error means that Envoy is gone.
        let _ = responses.send(Err(status)).await;
    }
}

struct Stream<'a> {
    state: &'a State,
    server: &'a Server,
    variant: Variant,
    requests: Requests,
    responses: &'a mpsc::Sender<Result<Bytes, Status>>,
    answered: AnsweredStream<'a>,
}

impl Stream<'_> {
    /// Queues Envoy's requests and the agent's own. Never waits for the control plane.
    async fn receive_requests(&self, mut downstream: RequestStream) -> Result<Infallible, End> {
        let mut application = self.state.application.clone();
        // The control plane knows the node by Envoy's first requests.
        let mut subscribed = false;
        loop {
            let frame = tokio::select! {
                message = downstream.message() => message.map_err(End::DownstreamFailed)?,
                Ok(()) = application.changed(), if subscribed => {
                    self.report_health(&mut application)?;
                    continue;
                }
            };
            let frame = frame.ok_or(End::DownstreamClosed)?;
            let header = Header::of_request(self.variant, &frame).map_err(End::InvalidRequest)?;
            let subscribes = !subscribed && header.type_url == type_urls::LISTENER;
            if !header.nonce.is_empty() {
                self.state.record_acknowledgement(&header);
            }
            self.push(frame)?;
            if subscribes {
                subscribed = true;
                self.subscribe()?;
                self.report_health(&mut application)?;
            }
        }
    }

    fn subscribe(&self) -> Result<(), End> {
        let options = &self.state.options;
        let types =
            [(options.names, OwnType::NameTable), (options.additional_roots, OwnType::ProxyConfig)];
        for (_, own_type) in types.into_iter().filter(|(wanted, _)| *wanted) {
            self.push(subscription::subscribe(self.variant, own_type))?;
        }
        Ok(())
    }

    fn report_health(&self, application: &mut super::Application) -> Result<(), End> {
        match &*application.borrow_and_update() {
            Some(health) => self.push(subscription::report(self.variant, health)),
            None => Ok(()),
        }
    }

    fn push(&self, request: Bytes) -> Result<(), End> {
        self.state.metrics.requests.inc();
        self.requests.push(request).map_err(|QueueFull| End::QueueFull)
    }

    /// Passes responses on to Envoy, except those of the agent's own types. Waits while Envoy does
    /// not read.
    async fn receive_responses(&self, queued: QueuedRequests) -> Result<Infallible, End> {
        let channel = self.server.connect().await.map_err(End::Connect)?;
        let requests = self.server.request(queued).map_err(End::Connect)?;
        let service = DiscoveryService::Aggregated;
        // The connection closes with its last handle, so `channel` stays here.
        let opened = client::open(channel.clone(), service, self.variant, requests).await;
        let mut upstream = opened.map_err(End::UpstreamFailed)?.into_inner();
        let (mut first, mut first_names) = (true, true);
        while let Some(frame) = upstream.message().await.map_err(End::UpstreamFailed)? {
            if std::mem::take(&mut first) {
                self.answered.answered();
                self.state.health.clear(Part::ControlPlane);
            }
            self.state.metrics.responses.inc();
            let header = Header::of_response(&frame).map_err(End::InvalidResponse)?;
            if let Some(own_type) = OwnType::from_type_url(header.type_url) {
                let nonce = header.nonce.to_owned();
                self.receive_own(own_type, &nonce, &mut first_names, frame)?;
            } else {
                let sent = self.responses.send(Ok(frame)).await;
                sent.map_err(|_| End::DownstreamClosed)?;
            }
        }
        Err(End::UpstreamClosed)
    }

    fn receive_own(
        &self,
        own_type: OwnType,
        nonce: &str,
        first_names: &mut bool,
        frame: Bytes,
    ) -> Result<(), End> {
        let (update, reply) =
            subscription::receive(self.variant, own_type, nonce, *first_names, frame);
        match update {
            Ok(update) => {
                *first_names &= !matches!(update, Update::Names(_));
                if self.answered.is_newest(own_type) {
                    self.state.publish(update);
                }
            }
            Err(error) => {
                self.state.metrics.rejected_responses.inc();
                tracing::warn!(?own_type, "rejected a response of the control plane: {error}");
            }
        }
        self.push(reply)
    }
}

impl State {
    fn publish(&self, update: Update) {
        match update {
            Update::Names(table) => {
                self.names.send_replace(Some(NameTable { table, name_info: None }));
            }
            Update::ChangedNames(changed, removed) => self.names.send_modify(|names| {
                let table = &mut names.get_or_insert_default().table;
                for name in &removed {
                    table.remove(name);
                }
                table.extend(changed);
            }),
            Update::Roots(roots) => {
                self.roots.send_if_modified(|current| {
                    let changed = *current != roots;
                    *current = roots;
                    changed
                });
            }
            Update::Nothing => {}
        }
    }

    /// Sets or clears the condition that Envoy rejects resources. It keeps those of before, which
    /// a new Envoy would not have.
    fn record_acknowledgement(&self, header: &Header<'_>) {
        let (part, resources) = match header.type_url {
            type_urls::CLUSTER => (Part::Clusters, "clusters"),
            type_urls::LISTENER => (Part::Listeners, "listeners"),
            _ => return,
        };
        if header.is_rejection {
            let reason = format!(
                "Envoy rejects {resources} of the control plane and keeps the previous ones; \
                 Envoy's log has the reason"
            );
            self.health.set(part, reason);
        } else {
            self.health.clear(part);
        }
    }

    /// Counts and logs the end of a stream, and sets the condition that it leaves. There is none
    /// while another stream is answered: a second Envoy's, or that of the one that keeps serving.
    fn record(&self, server: &Server, end: &End) {
        let address = server.address();
        let metrics = &self.metrics;
        let upstream = |kind| metrics.upstream_terminations.get_or_create(kind).inc();
        let downstream = |kind| metrics.downstream_terminations.get_or_create(kind).inc();
        let condition = match end {
            End::DownstreamClosed => {
                downstream(&Termination::CANCEL);
                return tracing::info!("Envoy closed its xDS stream");
            }
            End::DownstreamFailed(status) => {
                downstream(&Termination::ERROR);
                let message = status.message();
                return tracing::warn!("xDS stream of Envoy failed: {message}");
            }
            End::InvalidRequest(_) | End::QueueFull => {
                downstream(&Termination::ERROR);
                return tracing::warn!("closed the xDS stream of Envoy: {}", end.reason());
            }
            End::Connect(_) => {
                metrics.connection_failures.inc();
                format!("no connection to the control plane: {}", end.reason())
            }
            End::UpstreamClosed => {
                upstream(&Termination::CANCEL);
                let closed = format!("the control plane {address} closed the xDS stream");
                tracing::info!("{closed}");
                if !self.answered.any() {
                    self.health.set(Part::ControlPlane, closed);
                }
                return;
            }
            End::UpstreamFailed(_) | End::InvalidResponse(_) => {
                upstream(&Termination::ERROR);
                format!("xDS stream of the control plane {address} failed: {}", end.reason())
            }
        };
        // Envoy tries again every few seconds.
        if self.answered.any() || self.health.set(Part::ControlPlane, condition.as_str()) {
            tracing::warn!("{condition}");
        } else {
            tracing::debug!("{condition}");
        }
    }
}

/// Reason for the end of a stream.
#[derive(Debug)]
enum End {
    DownstreamClosed,
    DownstreamFailed(Status),
    InvalidRequest(FrameError),
    QueueFull,
    Connect(ChannelError),
    UpstreamClosed,
    UpstreamFailed(Status),
    InvalidResponse(FrameError),
}

impl End {
    /// Returns the error for Envoy; `None` if the stream ends without one.
    fn status(&self) -> Option<Status> {
        match self {
            Self::DownstreamClosed | Self::DownstreamFailed(_) | Self::UpstreamClosed => None,
            Self::InvalidRequest(_) => Some(Status::invalid_argument(self.reason())),
            Self::QueueFull => Some(Status::resource_exhausted(self.reason())),
            Self::Connect(_) => Some(Status::unavailable(self.reason())),
            // Metadata of the control plane's error does not concern Envoy.
            Self::UpstreamFailed(status) => Some(Status::new(status.code(), status.message())),
            Self::InvalidResponse(_) => Some(Status::internal(self.reason())),
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::DownstreamClosed | Self::UpstreamClosed => "the stream was closed".to_owned(),
            Self::DownstreamFailed(status) => status.message().to_owned(),
            // The code says more than some servers' text.
            Self::UpstreamFailed(status) => {
                format!("{} ({:?})", status.message(), status.code())
            }
            Self::InvalidRequest(error) => format!("invalid request: {error}"),
            Self::InvalidResponse(error) => format!("invalid response: {error}"),
            Self::QueueFull => {
                let limit = MAX_BYTES >> 20;
                format!("more than {limit} MiB of requests wait for the control plane")
            }
            Self::Connect(error) => error.to_string(),
        }
    }
}

/// Entry of the gauge of open streams.
struct OpenStream<'a>(&'a State);

impl<'a> OpenStream<'a> {
    fn new(state: &'a State) -> Self {
        state.metrics.streams.inc();
        Self(state)
    }
}

impl Drop for OpenStream<'_> {
    fn drop(&mut self) {
        self.0.metrics.streams.dec();
    }
}
