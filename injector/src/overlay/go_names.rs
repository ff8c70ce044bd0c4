//! The names that Kubernetes' Go types have for the fields of its JSON.

use std::borrow::Cow;

/// The Go name of a JSON field: `hostNetwork` is `HostNetwork`, `dnsPolicy` is `DNSPolicy`.
pub(super) fn of_field(json: &str) -> String {
    if let Some((_, go)) = SPECIAL.iter().find(|(name, _)| *name == json) {
        return (*go).to_owned();
    }
    let mut characters = json.chars();
    let first = characters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

/// The JSON name of a Go field.
pub(super) fn to_field(go: &str) -> Cow<'_, str> {
    if let Some((json, _)) = SPECIAL.iter().find(|(_, name)| *name == go) {
        return Cow::Borrowed(json);
    }
    let mut characters = go.chars();
    let first = characters.next().map(|c| c.to_ascii_lowercase());
    Cow::Owned(first.into_iter().chain(characters).collect())
}

/// Where Go's convention for initials says more than a capital first letter.
const SPECIAL: [(&str, &str); 29] = [
    ("apiGroup", "APIGroup"),
    ("apiVersion", "APIVersion"),
    ("awsElasticBlockStore", "AWSElasticBlockStore"),
    ("cephfs", "CephFS"),
    ("csi", "CSI"),
    ("dnsConfig", "DNSConfig"),
    ("dnsPolicy", "DNSPolicy"),
    ("fc", "FC"),
    ("fsGroup", "FSGroup"),
    ("fsGroupChangePolicy", "FSGroupChangePolicy"),
    ("fsType", "FSType"),
    ("gcePersistentDisk", "GCEPersistentDisk"),
    ("gmsaCredentialSpec", "GMSACredentialSpec"),
    ("grpc", "GRPC"),
    ("httpGet", "HTTPGet"),
    ("httpHeaders", "HTTPHeaders"),
    ("ip", "IP"),
    ("iqn", "IQN"),
    ("iscsi", "ISCSI"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("rbd", "RBD"),
    ("seLinuxOptions", "SELinuxOptions"),
    ("serviceAccount", "DeprecatedServiceAccount"),
    ("storageos", "StorageOS"),
    ("tcpSocket", "TCPSocket"),
    ("tty", "TTY"),
    ("uid", "UID"),
    ("wwids", "WWIDs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for (json, go) in SPECIAL.into_iter().chain([
            ("hostIP", "HostIP"),
            ("serviceAccountName", "ServiceAccountName"),
            ("containerPort", "ContainerPort"),
        ]) {
            assert_eq!(of_field(json), go);
            assert_eq!(to_field(go), json);
        }
    }
}
