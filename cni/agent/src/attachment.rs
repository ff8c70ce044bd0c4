//! Attachments of pods to a network, as libcni keeps them for each successful ADD.

use std::net::IpAddr;
use std::path::PathBuf;

use cni::network_config::Dns;
use cni::pod::PodIdentity;
use serde::Deserialize;

/// Attachment of a pod to a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The pod, as the runtime passes it.
    pub pod: PodIdentity,
    /// Network namespace of the pod, as a path on the node.
    pub namespace: PathBuf,
    /// Addresses of the pod's interfaces.
    pub addresses: Vec<IpAddr>,
    /// Name servers of the pod; `None` if the runtime passes none.
    pub name_servers: Option<Vec<IpAddr>>,
}

impl Attachment {
    /// Parses a file of libcni's cache (`cniCacheV1`). `None` if it is none of a pod's network.
    ///
    /// Before libcni 1.2, the namespace is only in the result of the plugins.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let cache: Cache = serde_json::from_slice(text).ok()?;
        // A runtime attaches the loopback interface by a list of its own, at the same time.
        if cache.interface == LOOPBACK {
            return None;
        }
        let argument = |name: &str| {
            let found = cache.arguments.iter().flatten().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let CniResult { interfaces, ips } = cache.result.unwrap_or_default();
        let mut sandboxes =
            interfaces.into_iter().flatten().filter(|it| it.name == cache.interface);
        let namespace = cache.namespace.filter(|path| !path.as_os_str().is_empty());
        let namespace = namespace.or_else(|| sandboxes.find_map(|it| it.sandbox))?;
        let addresses = ips.into_iter().flatten();
        let dns = cache.capability_arguments.and_then(|arguments| arguments.dns);
        Some(Self {
            pod: PodIdentity {
                namespace: argument("K8S_POD_NAMESPACE")?,
                name: argument("K8S_POD_NAME")?,
                uid: argument("K8S_POD_UID")?,
            },
            namespace,
            addresses: addresses
                .filter_map(|it| it.address.split('/').next()?.parse().ok())
                .collect(),
            name_servers: dns.and_then(|dns| dns.name_servers()),
        })
    }
}

/// A nil slice or map of Go is null.
#[derive(Deserialize)]
struct Cache {
    #[serde(rename = "ifName", default)]
    interface: String,
    #[serde(rename = "netns")]
    namespace: Option<PathBuf>,
    #[serde(rename = "cniArgs")]
    arguments: Option<Vec<(String, String)>>,
    #[serde(rename = "capabilityArgs")]
    capability_arguments: Option<CapabilityArguments>,
    result: Option<CniResult>,
}

#[derive(Deserialize)]
struct CapabilityArguments {
    dns: Option<Dns>,
}

#[derive(Default, Deserialize)]
struct CniResult {
    interfaces: Option<Vec<Interface>>,
    ips: Option<Vec<Address>>,
}

#[derive(Deserialize)]
struct Interface {
    #[serde(default)]
    name: String,
    sandbox: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(default)]
    address: String,
}

const LOOPBACK: &str = "lo";

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> PodIdentity {
        PodIdentity { namespace: "shop".into(), name: "web".into(), uid: "u".into() }
    }

    #[test]
    fn files_of_both_generations_are_parsed() {
        let text = r#"{"kind":"cniCacheV1","containerId":"c","config":"e30=","ifName":"eth0",
            "networkName":"n","cniArgs":[["IgnoreUnknown","1"],
            ["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","web"],["K8S_POD_UID","u"]],
            "capabilityArgs":{"dns":{"Servers":["10.96.0.10"]}},
            "result":{"cniVersion":"1.0.0","interfaces":[{"name":"bridge"},
            {"name":"eth0","sandbox":"/var/run/netns/a"}],
            "ips":[{"address":"10.1.0.2/16","interface":1},{"address":"fd00::2/64"}]}}"#;
        let attachment = Attachment {
            pod: web(),
            namespace: "/var/run/netns/a".into(),
            addresses: ["10.1.0.2", "fd00::2"].map(|it| it.parse().unwrap()).to_vec(),
            name_servers: Some(vec!["10.96.0.10".parse().unwrap()]),
        };
        assert_eq!(Attachment::parse(text.as_bytes()), Some(attachment.clone()));
        let newer = text.replace("\"ifName\"", "\"netns\":\"/run/netns/b\",\"ifName\"");
        let newer = Attachment::parse(newer.as_bytes());
        assert_eq!(newer, Some(Attachment { namespace: "/run/netns/b".into(), ..attachment }));
    }

    #[test]
    fn null_of_go_is_absent() {
        let text = r#"{"netns":"/a","ifName":"eth0","cniArgs":[["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","web"],["K8S_POD_UID","u"]],
            "capabilityArgs":{"dns":{"Servers":null,"Searches":null}},
            "result":{"interfaces":null,"ips":null}}"#;
        let attachment = Attachment {
            pod: web(),
            namespace: "/a".into(),
            addresses: vec![],
            name_servers: None,
        };
        assert_eq!(Attachment::parse(text.as_bytes()), Some(attachment.clone()));
        let text = r#"{"netns":"/a","ifName":"eth0","cniArgs":[["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","web"],["K8S_POD_UID","u"]],
            "capabilityArgs":null,"result":null}"#;
        assert_eq!(Attachment::parse(text.as_bytes()), Some(attachment));
    }

    #[test]
    fn files_without_a_network_of_a_pod_are_ignored() {
        let loopback = r#"{"netns":"/a","ifName":"lo","cniArgs":[["K8S_POD_NAMESPACE","shop"],["K8S_POD_NAME","web"],["K8S_POD_UID","u"]]}"#;
        let anonymous = r#"{"netns":"/a","cniArgs":[["K8S_POD_UID",""]]}"#;
        for text in ["", "[]", "{}", anonymous, loopback] {
            assert_eq!(Attachment::parse(text.as_bytes()), None, "{text}");
        }
    }
}
