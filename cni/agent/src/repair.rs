//! Capture in the sandbox of a pod that was made without the plugin.
//!
//! The kernel is the only memory: each attempt compares the rules of the namespace with the plan.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use istio_init::netlink::address;
use local_files::read_file;
use thiserror::Error;

use crate::attachment::Attachment;
use crate::node_pod::{NodePod, Validation};
use cni::answer::CniError;
use cni::decision::{OF_AGENT, OF_ANNOTATION};
use cni::network_namespace::NamespaceError;
use cni::{capture, network_namespace};

/// State of a pod's capture after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The rules were in force before.
    InForce,
    /// The rules were missing, and are in force now.
    Repaired,
    /// The rules are missing, and application containers may run: connections around the proxy
    /// may exist, so nothing is changed.
    MissingWhileRunning,
}

/// Error of an attempt.
#[derive(Debug, Error)]
pub enum RepairError {
    /// The capture request cannot be read.
    #[error("{0}")]
    Request(String),
    /// No sandbox of the pod is known yet.
    #[error(
        "no network namespace of the pod is known; hint: the runtime's cache of attachments may be in \
         another folder than --mounted-cni-cache-dir"
    )]
    NoSandbox,
    /// The namespace cannot be entered.
    #[error("network namespace {}: {error}", path.display())]
    Namespace {
        /// The namespace.
        path: PathBuf,
        /// The error.
        error: NamespaceError,
    },
    /// The namespace has none of the pod's addresses.
    #[error("network namespace {} has no address of the pod", .0.display())]
    OtherPod(PathBuf),
    /// The rules cannot be compared or programmed.
    #[error("{0}")]
    Capture(CniError),
    /// The thread that enters the namespace failed.
    #[error("the thread of the attempt failed: {0}")]
    Thread(String),
}

/// Compares the rules of the pod's sandbox with its request, and programs them if they are missing.
///
/// Rules of a pod whose application may run stay as they are. Needs `CAP_SYS_ADMIN` and
/// `CAP_NET_ADMIN`.
pub fn repair(attachments: &[Attachment], pod: &NodePod) -> Result<Capture, RepairError> {
    let mut failed = RepairError::NoSandbox;
    // The UID alone does not tell: that of a static pod is an annotation, which users write too.
    for attachment in attachments.iter().filter(|it| it.pod == pod.identity) {
        match repair_sandbox(pod, attachment) {
            // An attachment of an earlier sandbox, or of one that has got its path.
            Err(error @ (RepairError::Namespace { .. } | RepairError::OtherPod(_))) => {
                failed = error;
            }
            done => return done,
        }
    }
    Err(failed)
}

/// Repairs on a thread of its own, which stays in the pod's namespace and ends there.
fn repair_sandbox(pod: &NodePod, attachment: &Attachment) -> Result<Capture, RepairError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .spawn_scoped(scope, || repair_inside(pod, attachment))
            .map_err(|error| RepairError::Thread(error.to_string()))?;
        thread.join().unwrap_or_else(|_| Err(RepairError::Thread("panic".to_owned())))
    })
}

/// Returns the attachments of all pods, from the folder of libcni's cache.
pub fn attachments(cache: &Path) -> io::Result<Vec<Attachment>> {
    let entries = match fs::read_dir(cache) {
        // libcni creates it with its first attachment.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        // A file may be removed meanwhile.
        let Ok(text) = read_file(&entry?.path()) else { continue };
        found.extend(Attachment::parse(&text));
    }
    Ok(found)
}

fn repair_inside(pod: &NodePod, attachment: &Attachment) -> Result<Capture, RepairError> {
    let path = &attachment.namespace;
    network_namespace::enter(path)
        .map_err(|error| RepairError::Namespace { path: path.clone(), error })?;
    let known = if pod.addresses.is_empty() { &attachment.addresses } else { &pod.addresses };
    let inside = address::addresses();
    let inside: Vec<IpAddr> = inside.map_err(|error| RepairError::Request(error.to_string()))?;
    if !known.iter().any(|address| inside.contains(address)) {
        return Err(RepairError::OtherPod(path.clone()));
    }
    let request = pod.request.as_ref().map_err(|error| RepairError::Request(error.clone()))?;
    let origin = if pod.is_requested { OF_ANNOTATION } else { OF_AGENT };
    let plan = capture::plan(&pod.identity, origin, request, attachment.name_servers.clone())
        .map_err(RepairError::Capture)?;
    if capture::check(&pod.identity, &plan).is_ok() {
        return Ok(Capture::InForce);
    }
    if pod.validation == Validation::Passed {
        return Ok(Capture::MissingWhileRunning);
    }
    capture::program(&pod.identity, &plan).map_err(RepairError::Capture)?;
    capture::check(&pod.identity, &plan).map_err(RepairError::Capture)?;
    Ok(Capture::Repaired)
}

#[cfg(test)]
mod tests {
    use cni::pod::PodIdentity;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    /// The annotation of static pods is one that every user can write.
    #[test]
    fn annotation_with_the_uid_of_another_pod_reaches_none_of_its_namespaces() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "evil", "name": "attacker", "uid": "a", "annotations": {
                "kubernetes.io/config.hash": "victim-uid", "sidecar.istio.io/status": "{}",
                "sidecar.outrigger.io/capture": r#"{"args":["-i","*"]}"#}},
            "spec": {"containers": []},
        }))
        .unwrap();
        let pod = NodePod::read(&pod).unwrap();
        assert_eq!(pod.identity.uid, "victim-uid");
        let identity = |namespace: &str, name: &str| PodIdentity {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: "victim-uid".to_owned(),
        };
        for victim in [identity("victims", "victim"), identity("evil", "victim")] {
            let attachment = Attachment {
                pod: victim,
                namespace: "/proc/1/ns/net".into(),
                addresses: vec!["127.0.0.1".parse().unwrap()],
                name_servers: None,
            };
            let outcome = repair(&[attachment], &pod);
            assert!(matches!(outcome, Err(RepairError::NoSandbox)), "{outcome:?}");
        }
    }
}
