//! Errors of requests to a cluster.

use kube::core::Status;
use kube_access::with_causes;

/// Error of a request to a cluster, with a message for users.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The API server rejects the request, with a reason.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// There is no valid response.
    #[error("{}", with_causes(.0.as_ref()))]
    Failed(#[source] Box<kube::Error>),
}

impl From<kube::Error> for ClusterError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            error => Self::Failed(Box::new(error)),
        }
    }
}

impl ClusterError {
    /// True if a permission is missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(status) if matches!(status.code, 401 | 403))
    }

    /// True if there is no such object, or no such resource.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 404)
    }

    /// True if the object already exists.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 409)
    }

    /// True if the namespace does not exist, or is being deleted.
    pub fn is_of_a_vanishing_namespace(&self) -> bool {
        let Self::Refused(status) = self else { return false };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        self.is_absent() || causes.any(|cause| cause.reason == "NamespaceTerminating")
    }
}
