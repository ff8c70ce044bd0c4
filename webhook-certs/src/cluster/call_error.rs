//! Why a call to the API server did not do its work.

use std::time::Duration;

use crate::cause::with_causes;

/// Why a call to the API server did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server answered that it will not.
    #[error("cannot {verb} {object}: {message}{}", hint(*code, verb))]
    Refused {
        /// The verb of the request.
        verb: &'static str,
        /// The object that it was about.
        object: String,
        /// The HTTP status.
        code: u16,
        /// What the API server says.
        message: String,
    },
    /// There was no answer that could be read.
    #[error("cannot {verb} {object}: {}", with_causes(source.as_ref()))]
    Failed {
        /// The verb of the request.
        verb: &'static str,
        /// The object that it was about.
        object: String,
        /// What the client says.
        source: Box<kube::Error>,
    },
    /// There was no answer in time.
    #[error("cannot {verb} {object}: no answer within {limit:?}")]
    TimedOut {
        /// The verb of the request.
        verb: &'static str,
        /// The object that it was about.
        object: String,
        /// How long was waited.
        limit: Duration,
    },
}

impl CallError {
    /// Tells whether somebody else was faster, so that a fresh look is all that is needed.
    ///
    /// Besides 409 that is 404 of an object that has gone, and 422 of one that was created anew
    /// under the same name (its `uid` may not change) or whose entry has gone (the rest of an
    /// entry may not be missing).
    pub(super) fn is_conflict(&self) -> bool {
        match self {
            Self::Refused { verb, code, .. } => match *verb {
                "create" => *code == 409,
                "update" => matches!(code, 404 | 409),
                "patch" => matches!(code, 404 | 409 | 422),
                _ => false,
            },
            Self::Failed { .. } | Self::TimedOut { .. } => false,
        }
    }

    /// Tells whether the account may not do this, so that trying again soon is no use.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }
}

fn hint(code: u16, verb: &str) -> &'static str {
    match (code, verb) {
        (403, "patch") => {
            "; hint: allow it, or publish `ca.crt` of the Secret as caBundle by other means"
        }
        (403, _) => "; hint: the rules that are needed are in the RBAC of manifests/base",
        (404, "create") => "; hint: the namespace has to exist",
        _ => "",
    }
}
