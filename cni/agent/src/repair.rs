//! Capture in the sandbox of a pod that was made without the plugin.
//!
//! The kernel is the only memory: each attempt compares the rules of the namespace with the plan.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use istio_init::netlink::address;
use thiserror::Error;

use crate::attachment::Attachment;
use crate::node_pod::{NodePod, Validation};
use cni::answer::CniError;
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
    /// The folder of libcni's cache cannot be read.
    #[error("{}: {error}", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// No sandbox of the pod is known yet.
    #[error("no network namespace of the pod is known")]
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
/// `cache` is the folder of libcni's cache. Rules of a pod whose application may run stay as they
/// are. Needs `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`.
pub fn repair(cache: &Path, pod: &NodePod) -> Result<Capture, RepairError> {
    pod.request.as_ref().map_err(|error| RepairError::Request(error.clone()))?;
    let attachments = attachments(cache, &pod.identity.uid)?;
    let namespaces: BTreeSet<_> = attachments.iter().map(|it| &it.namespace).collect();
    let mut result = Err(RepairError::NoSandbox);
    for namespace in namespaces {
        let attachment = attachments.iter().find(|it| it.namespace == *namespace);
        let Some(attachment) = attachment else { continue };
        // The thread stays in the pod's namespace, so it serves one attempt.
        let attempt = std::thread::scope(|scope| {
            let thread =
                std::thread::Builder::new().spawn_scoped(scope, || repair_inside(pod, attachment));
            let thread = thread.map_err(|error| RepairError::Thread(error.to_string()))?;
            thread.join().unwrap_or_else(|_| Err(RepairError::Thread("panic".to_owned())))
        });
        match attempt {
            // An attachment of a sandbox that is gone, or of one that has reused its path.
            Err(RepairError::Namespace { .. } | RepairError::OtherPod(_)) if result.is_ok() => {}
            attempt => result = attempt,
        }
    }
    result
}

/// Returns the attachments of a pod.
fn attachments(cache: &Path, uid: &str) -> Result<Vec<Attachment>, RepairError> {
    let failed = |error| RepairError::Cache { folder: cache.to_owned(), error };
    let entries = match fs::read_dir(cache) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        // A file may be removed meanwhile.
        let Ok(text) = fs::read(entry.map_err(failed)?.path()) else { continue };
        found.extend(Attachment::parse(&text).filter(|attachment| attachment.uid == uid));
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
    let plan = capture::plan(&pod.identity, request, attachment.name_servers.clone())
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
