//! Pod of a call, as the runtime names it in `CNI_ARGS`.

use std::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

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
