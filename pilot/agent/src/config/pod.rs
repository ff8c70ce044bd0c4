//! The pod that the agent runs in.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::error::ConfigError;
use super::inputs::Inputs;
use super::metadata::{self, text};
use super::options::{Pod, Role};
use crate::environment::variables::{
    CLUSTER_ID, INSTANCE_IP, POD_NAME, POD_NAMESPACE, SERVICE_ACCOUNT, TRUST_DOMAIN,
};

/// Resolves the pod.
pub(super) fn pod(
    inputs: &Inputs,
    role: Role,
    metadata: &Map<String, Value>,
    trust_domain: Option<String>,
) -> Result<Pod, ConfigError> {
    let Inputs { arguments, environment, .. } = inputs;
    let id = arguments.classic.id.as_deref().and_then(|id| id.rsplit_once('.')).unzip();
    let unset = |variable, field| ConfigError::Unset { variable, field };
    let name = environment.get(POD_NAME).or(id.0);
    let name = name.ok_or_else(|| unset(POD_NAME.name, "metadata.name"))?.to_owned();
    let namespace = environment.get(POD_NAMESPACE).or(id.1);
    let namespace =
        namespace.ok_or_else(|| unset(POD_NAMESPACE.name, "metadata.namespace"))?.to_owned();
    let addresses = addresses(inputs)?;
    let first = addresses.first().ok_or_else(|| unset(INSTANCE_IP.name, "status.podIP"))?;
    let domain = arguments.domain.clone().filter(|domain| !domain.is_empty());
    let domain = domain.unwrap_or_else(|| format!("{namespace}.svc.cluster.local"));
    let node_type = match role {
        Role::Sidecar => "sidecar",
        Role::Router => "router",
    };
    let given_trust_domain = environment.get(TRUST_DOMAIN).map(str::to_owned);
    let expected = "a name of letters, digits, dots, hyphens and underscores";
    if given_trust_domain.as_deref().is_some_and(|domain| !is_trust_domain(domain)) {
        return Err(environment.wrong(TRUST_DOMAIN, expected).into());
    }
    let trust_domain = given_trust_domain.or(trust_domain).filter(|domain| !domain.is_empty());
    if let Some(domain) = trust_domain.as_deref().filter(|domain| !is_trust_domain(domain)) {
        let file = format!("mesh file {}", arguments.mesh_config.display());
        let problem = format!("trustDomain: {domain:?} is not {expected}");
        return Err(ConfigError::layer(file, &problem));
    }
    let cluster_id = environment.get(CLUSTER_ID).unwrap_or_else(|| text(metadata, "CLUSTER_ID"));
    if cluster_id.contains(char::is_control) {
        let expected = "text without control characters";
        return Err(match environment.get(CLUSTER_ID) {
            Some(_) => environment.wrong(CLUSTER_ID, expected).into(),
            None => metadata::wrong(metadata, "CLUSTER_ID", expected),
        });
    }
    Ok(Pod {
        node_id: format!("{node_type}~{first}~{name}.{namespace}~{domain}"),
        service_account: environment.text(SERVICE_ACCOUNT).to_owned(),
        trust_domain: trust_domain.unwrap_or_else(|| "cluster.local".to_owned()),
        cluster_id: if cluster_id.is_empty() { "Kubernetes" } else { cluster_id }.to_owned(),
        name,
        namespace,
        addresses,
        domain,
    })
}

/// True if the text can be the trust domain of a SPIFFE id.
fn is_trust_domain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// Returns the addresses: `INSTANCE_IP`, then the others of the interfaces.
fn addresses(inputs: &Inputs) -> Result<Vec<IpAddr>, ConfigError> {
    let expected = "an IP address";
    let given = match inputs.environment.parse::<IpAddr>(INSTANCE_IP, expected)? {
        Some(address) => Some(address),
        None => match &inputs.arguments.classic.ip {
            Some(text) => Some(text.parse().map_err(|_| ConfigError::Layer {
                layer: "--ip".to_owned(),
                problem: format!("{text:?} is not {expected}"),
            })?),
            None => None,
        },
    };
    let others = inputs.files.interface_addresses.iter().copied();
    Ok(given.into_iter().chain(others.filter(|other| Some(*other) != given)).collect())
}
