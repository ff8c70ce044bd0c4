//! The discovery service: current resources for each subscription, and again after a change.

use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_server::AggregatedDiscoveryService;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::resources::Configuration;

/// Answers both variants of ADS.
#[derive(Clone)]
pub(super) struct Discovery {
    configuration: watch::Receiver<Configuration>,
}

impl Discovery {
    pub(super) fn new(configuration: watch::Receiver<Configuration>) -> Self {
        Self { configuration }
    }

    fn answers<I: Subscription>(
        &self,
        mut requests: Streaming<I>,
        respond: fn(&Configuration, &str) -> I::Response,
    ) -> ReceiverStream<Result<I::Response, Status>> {
        let (sender, receiver) = mpsc::channel(8);
        let mut configuration = self.configuration.clone();
        let mut types = Vec::new();
        tokio::spawn(async move {
            loop {
                let changed = tokio::select! {
                    request = requests.message() => match request {
                        Ok(Some(request)) if request.is_new() => {
                            types.push(request.type_url().to_owned());
                            &types[types.len() - 1..]
                        }
                        Ok(Some(_)) => continue,
                        _ => break,
                    },
                    Ok(()) = configuration.changed() => &types[..],
                };
                let current = configuration.borrow_and_update().clone();
                for type_url in changed {
                    // The client may have left.
                    let _ = sender.send(Ok(respond(&current, type_url))).await;
                }
            }
        });
        ReceiverStream::new(receiver)
    }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Discovery {
    type StreamAggregatedResourcesStream = ReceiverStream<Result<DiscoveryResponse, Status>>;
    type DeltaAggregatedResourcesStream = ReceiverStream<Result<DeltaDiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        requests: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        Ok(Response::new(self.answers(requests.into_inner(), state_of_the_world)))
    }

    async fn delta_aggregated_resources(
        &self,
        requests: Request<Streaming<DeltaDiscoveryRequest>>,
    ) -> Result<Response<Self::DeltaAggregatedResourcesStream>, Status> {
        Ok(Response::new(self.answers(requests.into_inner(), delta)))
    }
}

/// Request of a variant.
trait Subscription: Send + 'static {
    type Response: Send;

    fn type_url(&self) -> &str;
    /// True unless the request acknowledges a response.
    fn is_new(&self) -> bool;
}

impl Subscription for DiscoveryRequest {
    type Response = DiscoveryResponse;

    fn type_url(&self) -> &str {
        &self.type_url
    }

    fn is_new(&self) -> bool {
        self.response_nonce.is_empty()
    }
}

impl Subscription for DeltaDiscoveryRequest {
    type Response = DeltaDiscoveryResponse;

    fn type_url(&self) -> &str {
        &self.type_url
    }

    fn is_new(&self) -> bool {
        self.response_nonce.is_empty()
    }
}

fn state_of_the_world(configuration: &Configuration, type_url: &str) -> DiscoveryResponse {
    let resources = configuration.resources(type_url);
    DiscoveryResponse {
        version_info: configuration.version.to_string(),
        resources: resources.into_iter().map(|(_, message)| message).collect(),
        type_url: type_url.to_owned(),
        nonce: NONCE.to_owned(),
        ..DiscoveryResponse::default()
    }
}

fn delta(configuration: &Configuration, type_url: &str) -> DeltaDiscoveryResponse {
    let version = configuration.version.to_string();
    let resource = |(name, message)| Resource {
        name,
        version: version.clone(),
        resource: Some(message),
        ..Resource::default()
    };
    DeltaDiscoveryResponse {
        resources: configuration.resources(type_url).into_iter().map(resource).collect(),
        type_url: type_url.to_owned(),
        nonce: NONCE.to_owned(),
        ..DeltaDiscoveryResponse::default()
    }
}

const NONCE: &str = "1";
