//! Why a call to the API server did not do its work.

use std::time::Duration;

use crate::cause::with_causes;

/// What messages call requests by.
pub(super) const REQUESTS: &str = "certificatesigningrequests";
/// The part of them that approvals are written to.
pub(super) const APPROVAL: &str = "certificatesigningrequests/approval";

/// Why a call to the API server did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server answered that it will not.
    #[error("cannot {verb} {object}: {message}{}", hint(*code, verb, object, message))]
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
            // An admission policy refuses by 422 too, unless it names another reason.
            Self::Refused { message, .. } if is_denied(message) => false,
            Self::Refused { verb, code, .. } => match *verb {
                "create" => *code == 409,
                "update" => matches!(code, 404 | 409),
                "patch" => matches!(code, 404 | 409 | 422),
                _ => false,
            },
            Self::Failed { .. } | Self::TimedOut { .. } => false,
        }
    }

    /// Tells whether nothing was heard of the API server.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::TimedOut { .. })
    }

    /// Tells whether the account may not do this, so that trying again soon is no use.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }
}

fn hint(code: u16, verb: &str, object: &str, message: &str) -> &'static str {
    let is_of = |resource: &str| object.starts_with(resource);
    match (code, verb) {
        (_, _) if is_denied(message) => {
            "; hint: an admission policy or webhook of the cluster refuses it, not RBAC"
        }
        (403, _) if message.contains(NOT_PERMITTED_TO_APPROVE) => {
            "; hint: the right to approve for a signer is in manifests/components/csr-approval"
        }
        // What is no want of a right has its reason in the message.
        (403, _) if !message.contains(&format!(" cannot {verb} resource ")) => "",
        (403, "patch") => {
            "; hint: allow it, or publish `ca.crt` of the Secret as caBundle by other means"
        }
        (403, _) if is_of("configmaps") => {
            "; hint: the rule that is needed is in manifests/components/trust-probe"
        }
        (403, _) if is_of(APPROVAL) => {
            "; hint: the rules that are needed are in manifests/components/csr-approval"
        }
        (403, _) if is_of(REQUESTS) => {
            "; hint: the rules that are needed are in manifests/components/csr"
        }
        (403, _) => "; hint: the rules that are needed are in the RBAC of manifests/base",
        (404, "create") => "; hint: the namespace has to exist",
        _ => "",
    }
}

/// Tells whether an admission policy or webhook has refused, by the words of `k8s.io/apiserver`.
fn is_denied(message: &str) -> bool {
    message.contains(" denied request: ") || message.contains(" denied the request")
}

/// What the API server's `CertificateApproval` says.
const NOT_PERMITTED_TO_APPROVE: &str = "not permitted to approve requests";

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, verb: &'static str, object: &str, message: &str) -> CallError {
        CallError::Refused { verb, object: object.to_owned(), code, message: message.to_owned() }
    }

    #[test]
    fn a_hint_names_where_the_missing_right_is_and_none_is_named_where_a_policy_refuses() {
        let lacks = |verb: &str| {
            format!("it is forbidden: User \"x\" cannot {verb} resource \"y\" in API group \"\"")
        };
        let policy = "events \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' \
                      denied request: no Events here";
        let webhook = "admission webhook \"w\" denied the request: no";
        for (verb, object, message, hinted) in [
            ("create", "secrets/ca in namespace a", lacks("create"), "manifests/base"),
            ("create", "events in namespace a", lacks("create"), "manifests/base"),
            ("create", "events in namespace a", policy.to_owned(), "not RBAC"),
            ("patch", "mutatingwebhookconfigurations/a", webhook.to_owned(), "not RBAC"),
            ("patch", "mutatingwebhookconfigurations/a", lacks("patch"), "by other means"),
            ("create", "configmaps in namespace a", lacks("create"), "components/trust-probe"),
            ("create", REQUESTS, lacks("create"), "components/csr"),
            ("get", "certificatesigningrequests/a", lacks("get"), "components/csr"),
            ("update", APPROVAL, lacks("update"), "components/csr-approval"),
            (
                "update",
                APPROVAL,
                "user not permitted to approve requests with signerName \"a.b/c\"".to_owned(),
                "components/csr-approval",
            ),
        ] {
            let said = refused(403, verb, object, &message).to_string();
            assert!(said.ends_with(hinted), "{said}");
        }
        let terminating = "secrets \"ca\" is forbidden: unable to create new content in namespace a \
                           because it is being terminated";
        let said = refused(403, "create", "secrets/ca in namespace a", terminating).to_string();
        assert!(!said.contains("hint"), "{said}");
    }

    #[test]
    fn a_policy_that_refuses_a_bundle_is_no_conflict_that_is_tried_again_at_once() {
        let hook = "mutatingwebhookconfigurations/a";
        assert!(refused(422, "patch", hook, "webhooks[0].sideEffects: Required").is_conflict());
        let policy = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        assert!(!refused(422, "patch", hook, policy).is_conflict());
    }
}
