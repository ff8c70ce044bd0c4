//! Identity of callers.

use std::sync::Arc;

use pilot_routing::view::ProxyView;
use thiserror::Error;

/// Authenticated caller, in the extensions of its HTTP requests. Requests of the plaintext
/// listener have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Trust domain of the identity.
    pub trust_domain: Arc<str>,
    /// Namespace of the service account.
    pub namespace: Arc<str>,
    /// Name of the service account.
    pub service_account: Arc<str>,
    /// Name of the pod, where the credential names it. A certificate does not.
    pub pod: Option<Arc<str>>,
}

/// Node of another workload than the caller's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the node claims the {claim} {claimed:?}, but the credential is one of {actual:?}; hint: the \
     proxy has to present its own pod's token or certificate"
)]
pub struct ForeignNode {
    claim: &'static str,
    claimed: String,
    actual: String,
}

impl Caller {
    /// Checks that a proxy is the caller's. A node without a service account claims none.
    pub fn check(&self, proxy: &ProxyView) -> Result<(), ForeignNode> {
        let claims = [
            ("namespace", &proxy.namespace, Some(&self.namespace)),
            ("service account", &proxy.service_account, Some(&self.service_account)),
            ("pod", &proxy.pod, self.pod.as_ref()),
        ];
        for (claim, claimed, actual) in claims {
            let Some(actual) = actual.filter(|actual| *actual != claimed) else { continue };
            if claim == "service account" && claimed.is_empty() {
                continue;
            }
            let (claimed, actual) = (claimed.to_string(), actual.to_string());
            return Err(ForeignNode { claim, claimed, actual });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pilot_registry::locality::Locality;
    use serde_json::json;

    use super::*;

    fn proxy(namespace: &str, service_account: &str, pod: &str) -> ProxyView {
        let metadata = json!({"NAMESPACE": namespace, "SERVICE_ACCOUNT": service_account});
        let id = format!("sidecar~10.0.0.1~{pod}.{namespace}~{namespace}.svc.cluster.local");
        let metadata = metadata.as_object().unwrap();
        ProxyView::from_node(&id, Locality::default(), metadata).unwrap()
    }

    #[test]
    fn node_of_another_workload_is_rejected() {
        let caller = Caller {
            trust_domain: "cluster.local".into(),
            namespace: "shop".into(),
            service_account: "web".into(),
            pod: Some("web-1".into()),
        };
        caller.check(&proxy("shop", "web", "web-1")).unwrap();
        caller.check(&proxy("shop", "", "web-1")).unwrap();
        for (node, claim) in [
            (proxy("bank", "web", "web-1"), "namespace \"bank\""),
            (proxy("shop", "api", "web-1"), "service account \"api\""),
            (proxy("shop", "web", "web-2"), "pod \"web-2\""),
        ] {
            let error = caller.check(&node).unwrap_err().to_string();
            assert!(error.contains(claim), "{error}");
        }
        // A certificate names no pod.
        let by_certificate = Caller { pod: None, ..caller };
        by_certificate.check(&proxy("shop", "web", "web-2")).unwrap();
    }
}
