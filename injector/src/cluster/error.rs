//! Why a cluster does not tell.

use kube::core::Status;

/// Why a cluster does not tell, in words for people.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The API server has refused, and says why.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    /// There was no answer that can be read.
    #[error(transparent)]
    Failed(Box<kube::Error>),
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
    /// Whether a right is missing.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(status) if matches!(status.code, 401 | 403))
    }

    /// Whether there is no such object, or no such resource.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 404)
    }

    /// Whether the object is there already.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 409)
    }

    /// Whether there is no such namespace, or soon will be none.
    pub fn is_of_a_vanishing_namespace(&self) -> bool {
        let Self::Refused(status) = self else { return false };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        self.is_absent() || causes.any(|cause| cause.reason == "NamespaceTerminating")
    }
}
