//! Admission decisions: from a review to a verdict.

use std::time::Duration;

use documents::excerpt;
use reason::words::Word;
use reason::{Reason, words};
use serde_json::Value;

use super::review::{Request, Response, Review};
use crate::inject::cluster_state::ClusterFacts;
use crate::inject::policy::Rules;
use crate::inject::{InjectError, InjectionOutcome, Target};
use crate::overlay::error::{OverlayError, TemplateSource};
use crate::settings::Settings;
use crate::webhook::telemetry::metrics::CallResult;
use crate::webhook::telemetry::subject::ReviewedPod;

/// Admission decisions by an injection function.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    inject: Inject,
}

/// Signature of [`crate::inject::inject`].
pub type Inject = fn(&Settings, Target<'_>) -> Result<InjectionOutcome, InjectError>;

impl Admission {
    /// Returns admission decisions by `inject`.
    pub fn new(inject: Inject) -> Self {
        Self { inject }
    }

    /// Decides a review. The decision has no side effects, so a dry run needs no special case.
    pub fn decide(
        self,
        settings: &Settings,
        cluster: ClusterFacts<'_>,
        review: Review,
        path_env: &[(String, String)],
    ) -> Verdict {
        let version = review.version;
        let verdict = self.verdict(settings, cluster, review, path_env);
        Verdict { response: verdict.response.in_version(version), ..verdict }
    }

    fn verdict(
        self,
        settings: &Settings,
        cluster: ClusterFacts<'_>,
        review: Review,
        path_env: &[(String, String)],
    ) -> Verdict {
        let Some(mut request) = review.request else {
            let message = "the AdmissionReview has no request".to_owned();
            return Verdict::denied(
                ReviewedPod::default(),
                String::new(),
                words::NO_REQUEST,
                400,
                message,
            );
        };
        let uid = std::mem::take(&mut request.uid);
        let subject = ReviewedPod::from_request(&request, &uid);
        if let Some(reason) = not_a_new_pod(&request) {
            return Verdict::skipped(subject, uid, &reason, &[]);
        }
        if !request.object.is_object() {
            let message = "request.object is not a pod".to_owned();
            return Verdict::denied(subject, uid, words::BAD_POD, 400, message);
        }
        let target = Target {
            pod: request.object,
            namespace: &request.namespace,
            cluster,
            workload: None,
            path_env,
            rules: Rules::Admission,
        };
        let unknown_users = settings.process.openshift && cluster.namespace_annotations.is_none();
        match (self.inject)(settings, target) {
            Ok(InjectionOutcome::Skipped { reason, warnings }) => {
                Verdict::skipped(subject, uid, &reason, &warnings)
            }
            Ok(InjectionOutcome::Injected(injection)) => {
                let response = Response::allow(uid.clone()).with_patch(&injection.patch());
                let mut warnings = injection.warnings;
                warnings.extend(unknown_users.then(namespace_unknown));
                match response {
                    Ok(response) => Verdict {
                        subject,
                        result: CallResult::Injected,
                        reason: "",
                        problem: None,
                        response: response.with_warnings(&warnings),
                        bytes: 0,
                    },
                    Err(error) if error.is_io() => {
                        let message =
                            format!("pod: {error}; API servers reject a pod of that size");
                        Verdict::denied(subject, uid, words::POD_TOO_LARGE, 400, message)
                    }
                    Err(error) => {
                        Verdict::denied(subject, uid, words::INTERNAL, 500, error.to_string())
                    }
                }
            }
            Err(error) => Verdict {
                problem: Some(error.without_values()),
                ..Verdict::denied(
                    subject,
                    uid,
                    error.reason_word(),
                    code(&error),
                    error.to_string(),
                )
            },
        }
    }
}

/// Decision on a review, for the response, the log and the metrics.
#[derive(Debug)]
pub struct Verdict {
    /// Identification of the review.
    pub(in crate::webhook) subject: ReviewedPod,
    /// Result of the call.
    pub result: CallResult,
    /// Reason in logs and labels; empty for an injection.
    pub reason: &'static str,
    /// Message of a denial for the log. Injection errors appear without values of the pod.
    problem: Option<String>,
    /// Response to the API server.
    pub response: Response,
    /// Size of the encoded review in bytes; 0 until it is encoded.
    pub(in crate::webhook) bytes: usize,
}

impl Verdict {
    fn skipped(subject: ReviewedPod, uid: String, reason: &Reason, warnings: &[Reason]) -> Self {
        let response = Response::allow(uid).with_warnings(std::slice::from_ref(reason));
        Self {
            subject,
            result: CallResult::Skipped,
            reason: reason.word(),
            problem: None,
            response: response.with_warnings(warnings),
            bytes: 0,
        }
    }

    fn denied(
        subject: ReviewedPod,
        uid: String,
        reason: &'static Word,
        code: u16,
        message: String,
    ) -> Self {
        Self {
            subject,
            result: CallResult::Denied,
            reason: reason.as_str(),
            problem: Some(message.clone()),
            response: Response::deny(uid, code, message),
            bytes: 0,
        }
    }

    /// Writes the log line of this review.
    pub(in crate::webhook) fn log(&self, took: Duration) {
        let ReviewedPod { uid, namespace, name, dry_run } = &self.subject;
        let (result, reason) = (self.result.word(), self.reason);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bytes = self.bytes;
        if let Some(problem) = &self.problem {
            tracing::warn!(
                uid,
                namespace,
                name,
                dry_run,
                result,
                reason,
                microseconds,
                problem,
                "admission"
            );
        } else {
            tracing::info!(
                uid,
                namespace,
                name,
                dry_run,
                result,
                reason,
                microseconds,
                bytes,
                "admission"
            );
        }
    }
}

impl ReviewedPod {
    fn from_request(request: &Request, uid: &str) -> Self {
        let metadata = &request.object["metadata"];
        let text =
            |value: &Value| excerpt::shorten(value.as_str().unwrap_or_default()).into_owned();
        let owner = &metadata["ownerReferences"][0];
        let name = if owner.is_object() {
            format!("{}/{}", text(&owner["kind"]), text(&owner["name"]))
        } else if metadata["name"].is_string() {
            text(&metadata["name"])
        } else {
            text(&metadata["generateName"])
        };
        Self {
            uid: excerpt::shorten(uid).into_owned(),
            namespace: excerpt::shorten(&request.namespace).into_owned(),
            name,
            dry_run: request.dry_run,
        }
    }
}

/// Returns the reason to skip a request that does not create a pod. Such a request means that the
/// rules of the webhook configuration are too broad.
///
/// An absent field of the request counts as correct, because hand-written reviews may lack the type
/// or the operation.
fn not_a_new_pod(request: &Request) -> Option<Reason> {
    let kind = &request.kind;
    let is_pod = kind.group.is_empty() && matches!(kind.kind.as_str(), "" | "Pod");
    if !is_pod || !request.sub_resource.is_empty() {
        let message = "the request is not about a pod";
        return Some(Reason::new(words::NOT_A_POD, message));
    }
    if !matches!(request.operation.as_str(), "" | "CREATE") {
        let message = "only a pod that is being created can be injected";
        return Some(Reason::new(words::NOT_A_CREATE, message));
    }
    None
}

/// Returns the warning about a pod whose namespace's allowed users could not be read.
fn namespace_unknown() -> Reason {
    let message = "the namespace's user range on OpenShift is unknown, so the proxy's user and \
                   group are 1337";
    Reason::new(words::NAMESPACE_UNKNOWN, message)
}

/// Returns 400 for an error that the pod's author can fix, and 500 for an error in the
/// configuration.
fn code(error: &InjectError) -> u16 {
    match error {
        InjectError::Annotations(_)
        | InjectError::Exhausted(_)
        | InjectError::UserContainer(_)
        | InjectError::Form { .. }
        | InjectError::Pod(_)
        | InjectError::ProxyUser(_)
        | InjectError::TooLarge(_)
        | InjectError::Overlay(OverlayError::NotFound {
            requested_by: TemplateSource::Annotation,
            ..
        }) => 400,
        InjectError::Overlay(_) | InjectError::Merge { .. } => 500,
    }
}
