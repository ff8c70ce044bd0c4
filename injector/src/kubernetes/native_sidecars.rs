//! Native sidecars: the setting `ENABLE_NATIVE_SIDECARS` and the support of nodes.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The value of `ENABLE_NATIVE_SIDECARS`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NativeSidecars {
    /// Native if every node supports it. Without a cluster it is native, because every supported
    /// version of Kubernetes supports it.
    Auto,
    /// Never native.
    False,
    /// Always native.
    True,
}

impl NativeSidecars {
    /// True if the proxy becomes a native sidecar when neither pod nor cluster decides.
    pub fn by_default(self) -> bool {
        self != Self::False
    }
}

impl FromStr for NativeSidecars {
    type Err = String;

    /// Parses the word in any letter case. An empty word, as of a variable set to the empty string,
    /// is `auto`.
    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word.to_ascii_lowercase().as_str() {
            "" | "auto" => Ok(Self::Auto),
            "false" => Ok(Self::False),
            "true" => Ok(Self::True),
            _ => Err("expected auto, true or false".to_owned()),
        }
    }
}

/// Kubelet versions of a cluster by node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kubelets {
    versions: BTreeMap<String, KubeletVersion>,
    /// True if every node supports native sidecars, also without any nodes.
    all: bool,
}

impl Default for Kubelets {
    /// Returns the versions of a cluster without nodes.
    fn default() -> Self {
        std::iter::empty().collect()
    }
}

impl FromIterator<(String, KubeletVersion)> for Kubelets {
    fn from_iter<I: IntoIterator<Item = (String, KubeletVersion)>>(nodes: I) -> Self {
        let versions: BTreeMap<_, _> = nodes.into_iter().collect();
        let all = versions.values().all(|version| version.has_native_sidecars());
        Self { versions, all }
    }
}

impl Kubelets {
    /// True if a pod for this node gets a native sidecar. Without a node, or with an unknown one,
    /// every node must support native sidecars.
    pub fn native_sidecars(&self, node: Option<&str>) -> bool {
        let version = node.and_then(|node| self.versions.get(node));
        version.map_or(self.all, |version| version.has_native_sidecars())
    }
}

/// Kubelet version reported by a node; `None` inside if it cannot be parsed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KubeletVersion(Option<(u32, u32)>);

impl KubeletVersion {
    /// Parses a version such as `v1.33.2`, with any suffix of a distribution.
    pub fn read(text: &str) -> Self {
        let number = |part: Option<&str>| part.and_then(|part| part.parse().ok());
        let mut parts = text.strip_prefix('v').unwrap_or(text).split(['.', '-', '+']);
        Self(number(parts.next()).zip(number(parts.next())))
    }

    /// True if native sidecars are stable, which is so from 1.33 on. Istio uses them by default
    /// from then on.
    fn has_native_sidecars(self) -> bool {
        self.0.is_some_and(|version| version >= (1, 33))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_variable_means_auto() {
        assert_eq!("".parse(), Ok(NativeSidecars::Auto));
        assert_eq!("False".parse(), Ok(NativeSidecars::False));
        assert!("yes".parse::<NativeSidecars>().unwrap_err().contains("auto, true or false"));
    }

    #[test]
    fn only_valid_and_recent_versions_have_native_sidecars() {
        let table = [
            ("v1.33.0", true),
            ("1.34.1", true),
            ("v1.33.5-gke.1080000", true),
            ("v1.33.1+k3s1", true),
            ("v1.33", true),
            ("v2.0.0", true),
            ("v1.32.9", false),
            ("v1.9.11", false),
            ("v1.33rc.1", false),
            ("v1", false),
            ("", false),
            ("edge", false),
        ];
        for (text, expected) in table {
            assert_eq!(KubeletVersion::read(text).has_native_sidecars(), expected, "{text}");
        }
    }

    #[test]
    fn node_of_the_pod_decides_or_else_all_nodes() {
        let kubelets = |nodes: &[(&str, &str)]| -> Kubelets {
            let nodes = nodes.iter();
            nodes.map(|(node, text)| ((*node).to_owned(), KubeletVersion::read(text))).collect()
        };
        let none = kubelets(&[]);
        assert_eq!(none, Kubelets::default());
        assert!(none.native_sidecars(None) && none.native_sidecars(Some("gone")));
        let mixed = kubelets(&[("old", "v1.32.0"), ("new", "v1.33.0")]);
        let asked = [None, Some("gone"), Some("old"), Some("new")];
        assert_eq!(asked.map(|node| mixed.native_sidecars(node)), [false, false, false, true]);
        let new = kubelets(&[("a", "v1.33.0"), ("b", "v1.35.4")]);
        assert!(new.native_sidecars(None));
        assert!(!kubelets(&[("a", "v1.33.0"), ("b", "?")]).native_sidecars(None));
    }
}
