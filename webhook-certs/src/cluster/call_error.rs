//! Errors of calls to the API server.

use std::time::Duration;

use kube_access::with_causes;

/// Resource of certificate signing requests in messages.
pub(super) const REQUESTS: &str = "certificatesigningrequests";
/// Subresource for approvals.
pub(super) const APPROVAL: &str = "certificatesigningrequests/approval";

/// Error of a call to the API server.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {object}: {cause}{}", hint(cause, verb, object))]
pub struct CallError {
    /// Verb of the request.
    pub verb: &'static str,
    /// Object of the request.
    pub object: String,
    /// Cause of the failure.
    pub cause: CallErrorCause,
}

/// Cause of a failed call to the API server.
#[derive(Debug, thiserror::Error)]
pub enum CallErrorCause {
    /// The API server rejected the call.
    #[error("{message}")]
    Rejected {
        /// HTTP status.
        code: u16,
        /// Message of the API server.
        message: String,
    },
    /// There was no usable response.
    #[error("{}", with_causes(.0.as_ref()))]
    Failed(Box<kube::Error>),
    /// There was no response within the timeout.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
}

impl CallError {
    /// True if another writer was faster, so that a new reconciliation suffices.
    ///
    /// That is 409, 404 for a deleted object, and 422 for an object that was created anew under the
    /// same name (`uid` is immutable) or whose entry was deleted (required fields are missing).
    pub(super) fn is_conflict(&self) -> bool {
        match &self.cause {
            // Admission policies reject with 422 too, unless they set another reason.
            CallErrorCause::Rejected { message, .. } if is_denied(message) => false,
            CallErrorCause::Rejected { code, .. } => match self.verb {
                "create" => *code == 409,
                "update" => matches!(code, 404 | 409),
                "patch" => matches!(code, 404 | 409 | 422),
                _ => false,
            },
            CallErrorCause::Failed(_) | CallErrorCause::TimedOut(_) => false,
        }
    }

    /// True if the API server did not respond.
    pub(super) fn is_unanswered(&self) -> bool {
        !matches!(self.cause, CallErrorCause::Rejected { .. })
    }

    /// True if the account lacks the right, so that an early retry is useless.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self.cause, CallErrorCause::Rejected { code: 403, .. })
    }
}

fn hint(cause: &CallErrorCause, verb: &str, object: &str) -> &'static str {
    let CallErrorCause::Rejected { code, message } = cause else { return "" };
    let is_of = |resource: &str| object.starts_with(resource);
    match (*code, verb) {
        (_, _) if is_denied(message) => {
            "; hint: change the admission policy or webhook that rejects it; RBAC allows it"
        }
        (403, _) if message.contains(NOT_PERMITTED_TO_APPROVE) => {
            "; hint: apply manifests/components/csr-approval for the right to approve for a signer"
        }
        // Other reasons are in the message already.
        (403, _) if !message.contains(&format!(" cannot {verb} resource ")) => "",
        (403, "patch") => {
            "; hint: allow it, or publish `ca.crt` of the Secret as caBundle by other means"
        }
        (403, _) if is_of("configmaps") => {
            "; hint: apply manifests/components/trust-probe for the required rule"
        }
        (403, _) if is_of(APPROVAL) => {
            "; hint: apply manifests/components/csr-approval for the required rules"
        }
        (403, _) if is_of(REQUESTS) => {
            "; hint: apply manifests/components/csr for the required rules"
        }
        (403, _) => "; hint: apply the RBAC of manifests/base",
        (404, "create") => "; hint: create the namespace",
        _ => "",
    }
}

/// True if an admission policy or webhook rejected the call, by the messages of `k8s.io/apiserver`.
fn is_denied(message: &str) -> bool {
    message.contains(" denied request: ") || message.contains(" denied the request")
}

/// Message of the API server's `CertificateApproval` plugin.
const NOT_PERMITTED_TO_APPROVE: &str = "not permitted to approve requests";

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: u16, verb: &'static str, object: &str, message: &str) -> CallError {
        let cause = CallErrorCause::Rejected { code, message: message.to_owned() };
        CallError { verb, object: object.to_owned(), cause }
    }

    #[test]
    fn hint_names_the_missing_right_unless_a_policy_denied() {
        let lacks = |verb: &str| {
            format!("it is forbidden: User \"x\" cannot {verb} resource \"y\" in API group \"\"")
        };
        let policy = "events \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' \
                      denied request: no Events here";
        let webhook = "admission webhook \"w\" denied the request: no";
        for (verb, object, message, hinted) in [
            ("create", "secrets/ca in namespace a", lacks("create"), "manifests/base"),
            ("create", "events in namespace a", lacks("create"), "manifests/base"),
            ("create", "events in namespace a", policy.to_owned(), "RBAC allows it"),
            ("patch", "mutatingwebhookconfigurations/a", webhook.to_owned(), "RBAC allows it"),
            ("patch", "mutatingwebhookconfigurations/a", lacks("patch"), "by other means"),
            (
                "create",
                "configmaps in namespace a",
                lacks("create"),
                "components/trust-probe for the required rule",
            ),
            ("create", REQUESTS, lacks("create"), "components/csr for the required rules"),
            (
                "get",
                "certificatesigningrequests/a",
                lacks("get"),
                "components/csr for the required rules",
            ),
            ("update", APPROVAL, lacks("update"), "components/csr-approval for the required rules"),
            (
                "update",
                APPROVAL,
                "user not permitted to approve requests with signerName \"a.b/c\"".to_owned(),
                "components/csr-approval for the right to approve for a signer",
            ),
        ] {
            let said = rejected(403, verb, object, &message).to_string();
            assert!(said.ends_with(hinted), "{said}");
        }
        let terminating = "secrets \"ca\" is forbidden: unable to create new content in namespace a \
                           because it is being terminated";
        let said = rejected(403, "create", "secrets/ca in namespace a", terminating).to_string();
        assert!(!said.contains("hint"), "{said}");
    }

    #[test]
    fn denial_by_a_policy_is_not_a_conflict() {
        let hook = "mutatingwebhookconfigurations/a";
        assert!(rejected(422, "patch", hook, "webhooks[0].sideEffects: Required").is_conflict());
        let policy = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        assert!(!rejected(422, "patch", hook, policy).is_conflict());
    }
}
