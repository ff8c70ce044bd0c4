//! State of a cluster watch.

use kube::runtime::watcher;

/// State of a cluster watch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::webhook) enum WatchState {
    /// There is no response yet.
    #[default]
    Pending,
    /// All objects are known.
    Current,
    /// The cluster has no such resource.
    Absent,
    /// The permissions are missing.
    Forbidden,
    /// The watch fails for another reason.
    Failing,
}

impl WatchState {
    /// All states.
    pub(in crate::webhook) const ALL: [Self; 5] =
        [Self::Pending, Self::Current, Self::Absent, Self::Forbidden, Self::Failing];

    /// Returns the state in logs and labels.
    pub(in crate::webhook) fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Current => "current",
            Self::Absent => "absent",
            Self::Forbidden => "forbidden",
            Self::Failing => "failing",
        }
    }

    /// Returns the state of a watch that ended with this error.
    pub(in crate::webhook) fn from_error(error: &watcher::Error) -> Self {
        let code = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => status.code,
            _ => 0,
        };
        match code {
            404 => Self::Absent,
            401 | 403 => Self::Forbidden,
            _ => Self::Failing,
        }
    }
}
