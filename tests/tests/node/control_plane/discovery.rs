//! The discovery service: a fixed answer for each type, and none for an ACK.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryService;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use pilot_agent::relay::NameTable;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::Names;
use super::configuration::{NamedResource, resources};

/// Answers both forms of ADS.
pub(super) struct Discovery {
    names: Names,
}

impl Discovery {
    pub(super) fn new(names: Names) -> Self {
        Self { names }
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AggregatedDiscoveryService for Discovery {
    type StreamAggregatedResourcesStream = Answers<DiscoveryResponse>;
    type DeltaAggregatedResourcesStream = Answers<DeltaDiscoveryResponse>;

    async fn stream_aggregated_resources(
        &self,
        requests: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let names = Arc::clone(&self.names);
        let mut proxy = None;
        let answers = requests.into_inner().filter_map(move |request| {
            let request = match request {
                Ok(request) => request,
                Err(status) => return Some(Err(status)),
            };
            remember(&mut proxy, request.node);
            if !request.response_nonce.is_empty() {
                return None;
            }
            let resources = resources(&request.type_url, proxy.as_ref()?, &current(&names));
            Some(Ok(DiscoveryResponse {
                version_info: VERSION.to_owned(),
                resources: resources.into_iter().map(|resource| resource.message).collect(),
                type_url: request.type_url,
                nonce: NONCE.to_owned(),
                ..DiscoveryResponse::default()
            }))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn delta_aggregated_resources(
        &self,
        requests: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        let names = Arc::clone(&self.names);
        let mut proxy = None;
        let answers = requests.into_inner().filter_map(move |request| {
            let request = match request {
                Ok(request) => request,
                Err(status) => return Some(Err(status)),
            };
            remember(&mut proxy, request.node);
            if !request.response_nonce.is_empty() {
                return None;
            }
            let resources = resources(&request.type_url, proxy.as_ref()?, &current(&names));
            Some(Ok(DeltaDiscoveryResponse {
                resources: resources.into_iter().map(delta).collect(),
                type_url: request.type_url,
                nonce: NONCE.to_owned(),
                ..DeltaDiscoveryResponse::default()
            }))
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn current(names: &Names) -> NameTable {
    names.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Keeps the node, which only the first request of a stream has.
fn remember(proxy: &mut Option<Node>, node: Option<Node>) {
    if node.is_some() {
        *proxy = node;
    }
}

fn delta(NamedResource { name, message }: NamedResource) -> Resource {
    Resource { name, version: VERSION.to_owned(), resource: Some(message), ..Resource::default() }
}

const VERSION: &str = "1";
const NONCE: &str = "1";
