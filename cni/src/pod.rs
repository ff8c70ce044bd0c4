//! Pod of a call, as the runtime names it in `CNI_ARGS`.

use std::fmt;

use thiserror::Error;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodIdentity {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID; of a static pod, its `kubernetes.io/config.hash`. Empty if the runtime does not pass it.
    pub uid: String,
}

/// Error of `CNI_ARGS`, as of the reference library of CNI (`types.LoadArgs`).
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidArgs {
    /// A part is no pair.
    #[error("CNI_ARGS: {0:?} is not KEY=VALUE")]
    Pair(String),
    /// A key is unknown, and `IgnoreUnknown` is not set.
    #[error("CNI_ARGS: unknown args [{0:?}]")]
    Unknown(String),
    /// `IgnoreUnknown` is neither true nor false.
    #[error("CNI_ARGS: IgnoreUnknown={0:?} is neither true nor false")]
    IgnoreUnknown(String),
}

/// Checks `CNI_ARGS`: pairs `KEY=VALUE` separated by `;`, with known keys unless `IgnoreUnknown` is
/// `1` or `true`. Container runtimes set it.
pub fn validate_args(cni_args: &str) -> Result<(), InvalidArgs> {
    if cni_args.is_empty() {
        return Ok(());
    }
    let (mut unknown, mut ignores) = (None, false);
    for pair in cni_args.split(';') {
        let split = pair.split_once('=').filter(|(_, value)| !value.contains('='));
        let (key, value) = split.ok_or_else(|| InvalidArgs::Pair(pair.to_owned()))?;
        if key == "IgnoreUnknown" {
            ignores = match &*value.to_ascii_lowercase() {
                "1" | "true" => true,
                "0" | "false" => false,
                _ => return Err(InvalidArgs::IgnoreUnknown(value.to_owned())),
            };
        } else if !KNOWN.contains(&key) {
            unknown = unknown.or(Some(key));
        }
    }
    match unknown {
        Some(key) if !ignores => Err(InvalidArgs::Unknown(key.to_owned())),
        _ => Ok(()),
    }
}

impl PodIdentity {
    /// Parses `CNI_ARGS`: pairs `KEY=VALUE` separated by `;`. `None` if they name no pod.
    pub fn parse(cni_args: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut pairs = cni_args.rsplit(';').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
        };
        let named = |key| value(key).filter(|value| !value.is_empty());
        Some(Self {
            namespace: named("K8S_POD_NAMESPACE")?,
            name: named("K8S_POD_NAME")?,
            uid: value("K8S_POD_UID").unwrap_or_default(),
        })
    }
}

impl fmt::Display for PodIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

const KNOWN: [&str; 4] =
    ["K8S_POD_INFRA_CONTAINER_ID", "K8S_POD_NAME", "K8S_POD_NAMESPACE", "K8S_POD_UID"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_arguments_are_rejected_unless_they_are_to_be_ignored() {
        let known = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=c";
        for args in ["", known, "IgnoreUnknown=1;A=b", "A=b;IgnoreUnknown=TRUE"] {
            assert_eq!(validate_args(args), Ok(()), "{args}");
        }
        for args in
            ["A=b", "IgnoreUnknown=0;A=b", "IgnoreUnknown=maybe", "K8S_POD_NAME", "A=b=c;", ";"]
        {
            assert!(validate_args(args).is_err(), "{args}");
        }
        let error = validate_args("K8S_POD_NAMESPACE_InvalidKeyword=a").unwrap_err().to_string();
        assert_eq!(error, "CNI_ARGS: unknown args [\"K8S_POD_NAMESPACE_InvalidKeyword\"]");
    }

    #[test]
    fn arguments_of_runtimes_name_the_pod_in_any_order() {
        let args = "IgnoreUnknown=1;K8S_POD_UID=u-1;K8S_POD_NAME=web;K8S_POD_NAMESPACE=shop;\
                    K8S_POD_INFRA_CONTAINER_ID=c";
        let pod = PodIdentity::parse(args).unwrap();
        assert_eq!((pod.to_string(), pod.uid.as_str()), ("shop/web".to_owned(), "u-1"));
    }

    #[test]
    fn arguments_without_a_pod_name_none() {
        for args in ["", "IgnoreUnknown=1", "K8S_POD_NAME=web", "K8S_POD_NAME=;K8S_POD_NAMESPACE=a"]
        {
            assert_eq!(PodIdentity::parse(args), None, "{args}");
        }
    }
}
