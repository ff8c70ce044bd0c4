//! gRPC services of the control plane.

use std::time::Duration;

use axum::Router;
use pilot_xds::server::DiscoveryServer;
use pilot_xds::service::DiscoveryService;
use pilot_xds::session::Limits;
use pilot_xds::streams::Streams;

use crate::source::Source;

/// Returns the routes of aggregated discovery.
pub fn discovery(source: Source) -> Router {
    let streams = Streams::new(source, Limits::default(), SEND_TIMEOUT);
    let service = DiscoveryServer::new(DiscoveryService::Aggregated, streams, MAX_REQUEST);
    Router::new().route_service(PATH, service)
}

const PATH: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}";

/// A proxy that does not read for this long loses its stream.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of a request. A reconnecting proxy names all its resources: 20,000 of 100 bytes each.
const MAX_REQUEST: usize = 16 << 20;
