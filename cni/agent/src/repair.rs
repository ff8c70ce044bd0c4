//! Capture in the sandbox of a pod that was made without the plugin.
//!
//! The kernel is the only memory: each attempt compares the rules of the namespace with the plan.

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
    for attachment in attachments.iter().filter(|it| it.uid == pod.identity.uid) {
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
        let Ok(text) = fs::read(entry?.path()) else { continue };
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
