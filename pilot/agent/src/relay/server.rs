//! gRPC server on the relay's Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use local_files::remove_if_present;
use pilot_xds::request_stream::RequestStream;
use pilot_xds::server::{DiscoveryHandler, DiscoveryServer};
use pilot_xds::service::{DiscoveryService, Variant};
use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::queue::MAX_BYTES;
use super::{Relay, stream};
use crate::log_limit::LogLimit;

/// Bound socket of the relay. Connections wait until [`Relay::serve`].
#[derive(Debug)]
pub struct Listener(UnixListener);

impl Relay {
    /// Binds the socket, in place of one that a killed agent left.
    pub fn listen(&self) -> Result<Listener, RelayError> {
        let path = &self.state.options.socket;
        let bind = |cause| RelayError::Bind { path: path.clone(), cause };
        if UnixStream::connect(path).is_ok() {
            return Err(RelayError::InUse { path: path.clone() });
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(bind)?;
        }
        remove_if_present(path).map_err(bind)?;
        let listener = UnixListener::bind(path).map_err(bind)?;
        let mode = if self.state.options.shared { 0o666 } else { 0o600 };
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(bind)?;
        Ok(Listener(listener))
    }

    /// Serves connections until it is dropped, which ends all of them.
    pub async fn serve(self, Listener(listener): Listener) {
        let service = DiscoveryServer::new(DiscoveryService::Aggregated, self, MAX_BYTES);
        let service = TowerToHyperService::new(service);
        let mut connections = JoinSet::new();
        let mut failures = LogLimit::default();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service.clone());
                    connections.spawn(async move {
                        if let Err(error) = connection.await {
                            tracing::debug!("connection to the xDS relay: {error}");
                        }
                    });
                }
                Err(error) => {
                    let log = |count| {
                        tracing::warn!("accepting a connection failed {count} times: {error}");
                    };
                    failures.pause(log).await;
                }
            }
        }
    }
}

impl DiscoveryHandler for Relay {
    type Responses = ReceiverStream<Result<Bytes, Status>>;

    async fn open(
        &self,
        variant: Variant,
        requests: Request<RequestStream>,
    ) -> Result<Response<Self::Responses>, Status> {
        if self.state.metrics.streams.get() >= MAX_STREAMS {
            let reason = format!("{MAX_STREAMS} streams are open; close one first");
            return Err(Status::resource_exhausted(reason));
        }
        let (sender, receiver) = mpsc::channel(RESPONSES);
        let state = Arc::clone(&self.state);
        // A task of its own: the server polls a response stream only when the client takes
        // responses, and requests must flow regardless.
        tokio::spawn(stream::relay(state, variant, requests.into_inner(), sender));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Failure to bind the socket.
#[derive(Debug, Error)]
pub enum RelayError {
    /// A process serves the socket already.
    #[error("another process serves {path}: is a second agent running?", path = .path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Binding the socket.
    #[error("binding the xDS relay's socket {path}: {cause}", path = .path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
}

/// Responses that wait for Envoy. Then the relay stops reading from the control plane.
const RESPONSES: usize = 8;
/// Envoy opens one stream, two during a hot restart; gRPC applications open one per process.
const MAX_STREAMS: i64 = 100;
