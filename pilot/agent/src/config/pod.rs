//! The pod that the agent runs in.

use std::net::IpAddr;

use mesh::spiffe::TrustDomain;
use serde_json::{Map, Value};

use super::error::ConfigError;
use super::inputs::Inputs;
use super::metadata::{self, text};
use super::options::{Pod, Role};
use crate::environment::Environment;
use crate::environment::variables::{
    CLUSTER_ID, INSTANCE_IP, POD_NAME, POD_NAMESPACE, SERVICE_ACCOUNT, TRUST_DOMAIN, Variable,
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
    let name = named(environment, POD_NAME, id.0)?;
    let name = name.ok_or_else(|| unset(POD_NAME.name, "metadata.name"))?;
    let namespace = named(environment, POD_NAMESPACE, id.1)?;
    let namespace = namespace.ok_or_else(|| unset(POD_NAMESPACE.name, "metadata.namespace"))?;
    let addresses = addresses(inputs)?;
    let first = addresses.first().ok_or_else(|| unset(INSTANCE_IP.name, "status.podIP"))?;
    let domain = arguments.domain.clone().filter(|domain| !domain.is_empty());
    if let Some(domain) = domain.as_deref().filter(|domain| !is_name(domain)) {
        return Err(ConfigError::layer("--domain", &format!("{domain:?} is not {NAME}")));
    }
    let domain = domain.unwrap_or_else(|| format!("{namespace}.svc.cluster.local"));
    let node_type = match role {
        Role::Sidecar => "sidecar",
        Role::Router => "router",
    };
    let trust_domain = trust_domain_of(inputs, trust_domain)?;
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
        service_account: named(environment, SERVICE_ACCOUNT, None)?.unwrap_or_default(),
        trust_domain,
        cluster_id: if cluster_id.is_empty() { "Kubernetes" } else { cluster_id }.to_owned(),
        name,
        namespace,
        addresses,
        domain,
    })
}

/// Returns the name of a variable, else of the flag `--id`. A part of the node's id or of the
/// identity cannot have the characters between parts.
fn named(
    environment: &Environment,
    variable: &'static Variable,
    of_flag: Option<&str>,
) -> Result<Option<String>, ConfigError> {
    match (environment.get(variable), of_flag) {
        (Some(name), _) if !is_name(name) => Err(environment.wrong(variable, NAME).into()),
        (None, Some(name)) if !is_name(name) => {
            Err(ConfigError::layer("--id", &format!("{name:?} is not {NAME}")))
        }
        (of_variable, of_flag) => Ok(of_variable.or(of_flag).map(str::to_owned)),
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Returns the trust domain: of the variable, else of the mesh file, else Istio's.
fn trust_domain_of(inputs: &Inputs, of_mesh: Option<String>) -> Result<TrustDomain, ConfigError> {
    let Inputs { arguments, environment, .. } = inputs;
    let expected = "a name of lower-case letters, digits, dots, hyphens and underscores";
    if let Some(text) = environment.get(TRUST_DOMAIN) {
        let wrong = |_| environment.wrong(TRUST_DOMAIN, expected).into();
        return TrustDomain::parse(text).map_err(wrong);
    }
    let of_mesh = of_mesh.filter(|domain| !domain.is_empty());
    let text = of_mesh.as_deref().unwrap_or("cluster.local");
    TrustDomain::parse(text).map_err(|_| {
        let file = format!("mesh file {}", arguments.mesh_config.display());
        ConfigError::layer(file, &format!("trustDomain: {text:?} is not {expected}"))
    })
}

/// Returns the addresses: `INSTANCE_IP`, then the others of the interfaces.
fn addresses(inputs: &Inputs) -> Result<Vec<IpAddr>, ConfigError> {
    let expected = "the IP address of a pod";
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
    if let Some(address) = given.filter(|ip| ip.is_unspecified() || ip.is_multicast()) {
        return Err(match inputs.environment.get(INSTANCE_IP) {
            Some(_) => inputs.environment.wrong(INSTANCE_IP, expected).into(),
            None => ConfigError::layer("--ip", &format!("{address} is not {expected}")),
        });
    }
    let others = inputs.files.interface_addresses.iter().copied();
    Ok(given.into_iter().chain(others.filter(|other| Some(*other) != given)).collect())
}

const NAME: &str = "a name of at most 253 letters, digits, `-`, `.` and `_`";
/// Kubernetes' limit.
const LONGEST_NAME: usize = 253;
