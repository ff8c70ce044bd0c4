//! Requests and responses of the agent's own types. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use pilot_xds::messages::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Status,
};
use pilot_xds::service::Variant;
use pilot_xds::type_urls;
use prost::{DecodeError, Message};

use super::own_types::{ApplicationHealth, NameInfo, NameTable, ProxyConfig};

/// Type that the agent handles itself.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum OwnType {
    NameTable,
    ProxyConfig,
    HealthInformation,
}

impl OwnType {
    pub(super) fn from_type_url(type_url: &str) -> Option<Self> {
        match type_url {
            type_urls::NAME_TABLE => Some(Self::NameTable),
            type_urls::PROXY_CONFIG => Some(Self::ProxyConfig),
            type_urls::HEALTH_INFORMATION => Some(Self::HealthInformation),
            _ => None,
        }
    }

    fn type_url(self) -> &'static str {
        match self {
            Self::NameTable => type_urls::NAME_TABLE,
            Self::ProxyConfig => type_urls::PROXY_CONFIG,
            Self::HealthInformation => type_urls::HEALTH_INFORMATION,
        }
    }
}

/// Content of a response.
#[derive(Debug, PartialEq)]
pub(super) enum Update {
    /// All names.
    Names(BTreeMap<String, NameInfo>),
    /// Changed names and removed ones.
    ChangedNames(BTreeMap<String, NameInfo>, Vec<String>),
    /// All additional roots.
    Roots(Vec<String>),
    /// Nothing to publish.
    Nothing,
}

/// Returns the subscription to a type.
pub(super) fn subscribe(variant: Variant, own_type: OwnType) -> Bytes {
    request(variant, own_type, Reply::default())
}

/// Returns the report of the application's health.
pub(super) fn report(variant: Variant, health: &ApplicationHealth) -> Bytes {
    let error = match health {
        ApplicationHealth::Healthy => None,
        ApplicationHealth::Unhealthy(reason) => {
            Some(Status { code: INTERNAL, message: reason.clone() })
        }
    };
    request(variant, OwnType::HealthInformation, Reply { error, ..Reply::default() })
}

/// Decodes a response, and returns the ACK or NACK for it. `nonce` is the frame's.
pub(super) fn receive(
    variant: Variant,
    own_type: OwnType,
    nonce: &str,
    first: bool,
    frame: Bytes,
) -> (Result<Update, DecodeError>, Bytes) {
    let decoded = decode(variant, frame);
    let version = decoded.as_ref().map(|response| response.version.clone()).unwrap_or_default();
    let update = decoded.and_then(|response| update(own_type, first, response));
    let error = update.as_ref().err().map(|error| Status {
        code: INVALID_ARGUMENT,
        message: format!("the agent cannot decode {}: {error}", own_type.type_url()),
    });
    // A NACK repeats the last accepted version; the agent keeps none, and servers go by the nonce.
    let version = if error.is_some() { String::new() } else { version };
    let reply = Reply { version, nonce: nonce.to_owned(), error };
    (update, request(variant, own_type, reply))
}

#[derive(Default)]
struct Reply {
    version: String,
    nonce: String,
    error: Option<Status>,
}

fn request(variant: Variant, own_type: OwnType, reply: Reply) -> Bytes {
    let type_url = own_type.type_url().to_owned();
    let Reply { version, nonce, error } = reply;
    let encoded = match variant {
        Variant::Delta => DeltaDiscoveryRequest {
            type_url,
            response_nonce: nonce,
            error_detail: error,
            ..DeltaDiscoveryRequest::default()
        }
        .encode_to_vec(),
        Variant::StateOfTheWorld => DiscoveryRequest {
            version_info: version,
            type_url,
            response_nonce: nonce,
            error_detail: error,
            ..DiscoveryRequest::default()
        }
        .encode_to_vec(),
    };
    encoded.into()
}

/// Response of either variant.
struct OwnResponse {
    version: String,
    /// Resources with their names, which are empty in state of the world.
    resources: Vec<(String, Any)>,
    removed: Vec<String>,
}

fn decode(variant: Variant, frame: Bytes) -> Result<OwnResponse, DecodeError> {
    Ok(match variant {
        Variant::Delta => {
            let response = DeltaDiscoveryResponse::decode(frame)?;
            let resources = response.resources.into_iter();
            let resources = resources.filter_map(|found| Some((found.name, found.resource?)));
            OwnResponse {
                version: response.system_version_info,
                resources: resources.collect(),
                removed: response.removed_resources,
            }
        }
        Variant::StateOfTheWorld => {
            let response = DiscoveryResponse::decode(frame)?;
            let resources = response.resources.into_iter();
            OwnResponse {
                version: response.version_info,
                resources: resources.map(|any| (String::new(), any)).collect(),
                removed: Vec::new(),
            }
        }
    })
}

fn update(own_type: OwnType, first: bool, response: OwnResponse) -> Result<Update, DecodeError> {
    match own_type {
        OwnType::NameTable => names(first, response),
        OwnType::ProxyConfig => {
            let mut roots = Vec::new();
            for (_, resource) in response.resources {
                roots.append(&mut ProxyConfig::decode(resource.value)?.ca_certificates_pem);
            }
            Ok(Update::Roots(roots))
        }
        OwnType::HealthInformation => Ok(Update::Nothing),
    }
}

/// A resource is either a whole table or one entry of it, under its own name.
fn names(first: bool, response: OwnResponse) -> Result<Update, DecodeError> {
    let mut entries = BTreeMap::new();
    let mut whole = first;
    for (name, resource) in response.resources {
        let mut table = NameTable::decode(resource.value)?;
        if let Some(info) = table.name_info {
            entries.insert(name, info);
        } else {
            whole = true;
            entries.append(&mut table.table);
        }
    }
    let update = if whole {
        Update::Names(entries)
    } else {
        Update::ChangedNames(entries, response.removed)
    };
    Ok(update)
}

/// gRPC's codes.
const INVALID_ARGUMENT: i32 = 3;
const INTERNAL: i32 = 13;

#[cfg(test)]
mod tests {
    use pilot_xds::messages::Resource;

    use super::*;

    const VARIANTS: [Variant; 2] = [Variant::Delta, Variant::StateOfTheWorld];

    fn info(ip: &str) -> NameInfo {
        NameInfo { ips: vec![ip.to_owned()], ..NameInfo::default() }
    }

    fn response(variant: Variant, resources: Vec<(&str, Vec<u8>)>) -> Bytes {
        let any = |value: Vec<u8>| Any { type_url: String::new(), value: value.into() };
        match variant {
            Variant::Delta => {
                let resources = resources.into_iter().map(|(name, value)| Resource {
                    name: name.to_owned(),
                    resource: Some(any(value)),
                    ..Resource::default()
                });
                let removed_resources = vec!["old.default.svc".to_owned()];
                DeltaDiscoveryResponse {
                    resources: resources.collect(),
                    removed_resources,
                    ..DeltaDiscoveryResponse::default()
                }
                .encode_to_vec()
            }
            Variant::StateOfTheWorld => {
                let resources = resources.into_iter().map(|(_, value)| any(value)).collect();
                let version_info = "7".to_owned();
                DiscoveryResponse { version_info, resources, ..DiscoveryResponse::default() }
                    .encode_to_vec()
            }
        }
        .into()
    }

    #[test]
    fn whole_table_replaces_all_names() {
        let table = BTreeMap::from([("a.default.svc".to_owned(), info("10.0.0.1"))]);
        let value = NameTable { table: table.clone(), name_info: None }.encode_to_vec();
        for variant in VARIANTS {
            let frame = response(variant, vec![("", value.clone())]);
            let (update, _) = receive(variant, OwnType::NameTable, "n", false, frame);
            assert_eq!(update.unwrap(), Update::Names(table.clone()));
        }
    }

    #[test]
    fn delta_entries_change_names_after_the_first() {
        let value = NameTable { table: BTreeMap::new(), name_info: Some(info("10.0.0.1")) };
        let frame = response(Variant::Delta, vec![("a.default.svc", value.encode_to_vec())]);
        let entries = BTreeMap::from([("a.default.svc".to_owned(), info("10.0.0.1"))]);
        let receive = |first| {
            receive(Variant::Delta, OwnType::NameTable, "n", first, frame.clone()).0.unwrap()
        };
        assert_eq!(receive(true), Update::Names(entries.clone()));
        let removed = vec!["old.default.svc".to_owned()];
        assert_eq!(receive(false), Update::ChangedNames(entries, removed));
    }

    #[test]
    fn undecodable_resource_is_nacked_with_its_nonce() {
        for own_type in [OwnType::NameTable, OwnType::ProxyConfig] {
            let broken = |variant| response(variant, vec![("a", vec![0x0a, 9])]);
            let frame = broken(Variant::Delta);
            let (update, nack) = receive(Variant::Delta, own_type, "n7", false, frame);
            update.unwrap_err();
            let nack = DeltaDiscoveryRequest::decode(nack).unwrap();
            assert_eq!(nack.response_nonce, "n7");
            assert_eq!(nack.error_detail.unwrap().code, INVALID_ARGUMENT);
            let variant = Variant::StateOfTheWorld;
            let (_, nack) = receive(variant, own_type, "n7", false, broken(variant));
            let nack = DiscoveryRequest::decode(nack).unwrap();
            assert_eq!((nack.response_nonce.as_str(), nack.version_info.as_str()), ("n7", ""));
            assert!(nack.error_detail.unwrap().message.contains(own_type.type_url()));
        }
    }

    #[test]
    fn truncated_response_is_nacked() {
        let value = NameTable { table: BTreeMap::new(), name_info: Some(info("10.0.0.1")) };
        let variant = Variant::Delta;
        let frame = response(variant, vec![("a", value.encode_to_vec())]);
        for length in 0..frame.len() {
            let cut = frame.slice(..length);
            let (update, reply) = receive(variant, OwnType::NameTable, "n", false, cut);
            let reply = DeltaDiscoveryRequest::decode(reply).unwrap();
            assert_eq!(reply.error_detail.is_some(), update.is_err());
        }
    }

    #[test]
    fn sotw_ack_repeats_version_and_nonce() {
        let variant = Variant::StateOfTheWorld;
        let frame = response(variant, vec![]);
        let (_, ack) = receive(variant, OwnType::ProxyConfig, "n7", false, frame);
        let ack = DiscoveryRequest::decode(ack).unwrap();
        assert_eq!((ack.response_nonce.as_str(), ack.version_info.as_str()), ("n7", "7"));
        assert_eq!((ack.error_detail, ack.type_url.as_str()), (None, type_urls::PROXY_CONFIG));
    }

    #[test]
    fn unhealthy_report_has_the_reason() {
        let health = ApplicationHealth::Unhealthy("HTTP 503".to_owned());
        let report = DeltaDiscoveryRequest::decode(report(Variant::Delta, &health)).unwrap();
        assert_eq!(report.type_url, type_urls::HEALTH_INFORMATION);
        let expected = Status { code: 13, message: "HTTP 503".to_owned() };
        assert_eq!(report.error_detail, Some(expected));
    }
}
