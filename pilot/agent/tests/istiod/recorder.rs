//! Server between relay and istiod that records the frames of both directions.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use pilot_agent::channel::ControlPlane;
use pilot_xds::client;
use pilot_xds::request_stream::RequestStream;
use pilot_xds::server::{DiscoveryHandler, DiscoveryServer};
use pilot_xds::service::{DiscoveryService, Variant};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

/// Recorder of one stream.
#[derive(Clone)]
pub(crate) struct Recorder {
    istiod: ControlPlane,
    frames: Arc<Mutex<Frames>>,
}

/// Frames in the order of their arrival.
#[derive(Clone, Default)]
pub(crate) struct Frames {
    pub(crate) requests: Vec<Bytes>,
    pub(crate) responses: Vec<Bytes>,
}

impl Recorder {
    /// Starts the server, and returns its address. It accepts one connection.
    pub(crate) async fn start(istiod: ControlPlane) -> Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let recorder = Self { istiod, frames: Arc::default() };
        let server =
            DiscoveryServer::new(DiscoveryService::Aggregated, recorder.clone(), usize::MAX);
        tokio::spawn(async move {
            let (tcp, _) = listener.accept().await?;
            let connection = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(tcp), TowerToHyperService::new(server));
            connection.await.map_err(std::io::Error::other)
        });
        Ok((recorder, address))
    }

    /// Returns the frames so far.
    pub(crate) fn frames(&self) -> Frames {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, add: impl FnOnce(&mut Frames)) {
        add(&mut self.frames.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl DiscoveryHandler for Recorder {
    type Responses = BoxStream<'static, Result<Bytes, Status>>;

    async fn open(
        &self,
        variant: Variant,
        requests: Request<RequestStream>,
    ) -> Result<Response<Self::Responses>, Status> {
        let failed = |error: &dyn std::error::Error| Status::unavailable(error.to_string());
        let server = self.istiod.server();
        let channel = server.connect().await.map_err(|error| failed(&error))?;
        let state = (self.clone(), requests.into_inner());
        let requests = stream::unfold(state, async |(recorder, mut requests)| {
            let frame = requests.message().await.ok().flatten()?;
            recorder.record(|frames| frames.requests.push(frame.clone()));
            Some((frame, (recorder, requests)))
        });
        let requests = server.request(requests).map_err(|error| failed(&error))?;
        let service = DiscoveryService::Aggregated;
        let opened = client::open(channel.clone(), service, variant, requests).await?;
        let recorder = self.clone();
        let responses = opened.into_inner().map(move |frame| {
            // The connection lives as long as the stream.
            let _ = &channel;
            recorder.record(|frames| frames.responses.extend(frame.clone().ok()));
            frame
        });
        Ok(Response::new(responses.boxed()))
    }
}
