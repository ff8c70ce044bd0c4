//! Entry of the plugin in a configuration list.

use std::path::Path;

use cni::network_config::OnUnknown;
use serde_json::{Value, json};

/// Returns the entry.
pub fn entry(exclude_namespaces: &[String], run_dir: &Path, on_unknown: OnUnknown) -> Value {
    let mut entry = json!({
        "type": TYPE,
        "capabilities": {POD_ANNOTATIONS: true, "dns": true},
        "exclude_namespaces": exclude_namespaces,
        "run_dir": run_dir,
    });
    if on_unknown == OnUnknown::Pass {
        entry["on_unknown"] = "pass".into();
    }
    entry
}

/// True for an entry that [`entry`] has written. Istio's has the same type, and other keys.
pub fn is_ours(entry: &Value) -> bool {
    entry["type"] == TYPE && !entry["capabilities"][POD_ANNOTATIONS].is_null()
}

/// Name of the plugin's program, for us and for Istio.
pub const TYPE: &str = "istio-cni";
/// Capability by which a runtime passes the annotations of a pod.
const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

#[cfg(test)]
mod tests {
    use cni::network_config::NetworkConfig;

    use super::*;

    #[test]
    fn plugin_reads_what_the_agent_writes() {
        let mut call = entry(&["kube-system".to_owned()], Path::new("/run/a"), OnUnknown::Pass);
        assert!(is_ours(&call));
        call["cniVersion"] = "1.0.0".into();
        let config = NetworkConfig::parse(call.to_string().as_bytes()).unwrap();
        assert_eq!(config.exclude_namespaces, ["kube-system"]);
        assert_eq!(config.run_dir, Path::new("/run/a"));
        assert_eq!(config.on_unknown, OnUnknown::Pass);
    }
}
