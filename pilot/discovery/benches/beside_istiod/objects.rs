//! Services of the compared mesh in an API server.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Objects in an API server.
pub(crate) struct Objects {
    client: Client,
    services: u32,
}

impl Objects {
    pub(crate) fn new(client: Client, services: u32) -> Self {
        Self { client, services }
    }

    /// Creates the namespaces, then many Services with their `EndpointSlices` at the same time.
    pub(crate) async fn create(&self) -> Result<()> {
        for number in 0..self.services.div_ceil(PER_NAMESPACE) {
            let name = format!("namespace-{number}");
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            namespaces.create(&PostParams::default(), &namespace).await.context(name)?;
        }
        let creations = stream::iter(0..self.services).map(|number| self.create_service(number));
        creations.buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn create_service(&self, number: u32) -> Result<()> {
        let (name, namespace) = names(number);
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "selector": {"app": name},
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
            },
        }))?;
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {
                "name": format!("{name}-1"),
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": endpoints(number, 0),
        }))?;
        let services: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
        services.create(&PostParams::default(), &service).await.context("creating a Service")?;
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &namespace);
        slices.create(&PostParams::default(), &slice).await.context("creating an EndpointSlice")?;
        Ok(())
    }

    /// Gives an endpoint of the first service the address of this change.
    pub(crate) async fn change(&self, change: u32) -> Result<()> {
        let (name, namespace) = names(0);
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &namespace);
        let patch = Patch::Merge(json!({"endpoints": endpoints(0, change)}));
        slices.patch(&format!("{name}-1"), &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

/// Cluster of the service that changes.
pub(crate) fn changing_cluster() -> String {
    let (name, namespace) = names(0);
    format!("outbound|80||{name}.{namespace}.svc.cluster.local")
}

/// True if this is the cluster of one of the services; the API server has one more.
pub(crate) fn is_cluster(name: &str) -> bool {
    name.starts_with("outbound|80||service-")
}

/// Returns the change that gave an endpoint this address.
pub(crate) fn change_of(address: &str) -> Option<u32> {
    let address = address.parse::<Ipv4Addr>().ok()?.to_bits();
    address.checked_sub(CHANGING).filter(|change| *change < 0x1_0000)
}

fn endpoints(number: u32, change: u32) -> Vec<Value> {
    let endpoint = |index| {
        let is_changing = number == 0 && index == 0;
        let address = if is_changing { CHANGING + change } else { FIXED + number * 16 + index };
        let address = Ipv4Addr::from_bits(address).to_string();
        json!({"addresses": [address], "conditions": {"ready": true}})
    };
    (0..ENDPOINTS).map(endpoint).collect()
}

fn names(number: u32) -> (String, String) {
    (format!("service-{number}"), format!("namespace-{}", number / PER_NAMESPACE))
}

/// Endpoints of a service.
pub(crate) const ENDPOINTS: u32 = 10;
/// Addresses for more Services than the API servers of tests have.
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";
const PER_NAMESPACE: u32 = 100;
/// 10.200.0.0, with the number of the change in the last two bytes.
const CHANGING: u32 = 0x0ac8_0000;
const FIXED: u32 = 0x0b00_0000;
/// Services that are created at the same time.
const AT_ONCE: usize = 32;
