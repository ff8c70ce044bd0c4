//! Errors of injection.

use documents::excerpt;
use reason::Reason;
use reason::words::{self, Word};

use crate::budget::Exhausted;
use crate::kubernetes::merge::MergeError;
use crate::overlay::error::{OverlayError, TemplateSource};
use crate::settings::annotations::AnnotationError;

/// The reason why a pod cannot be injected. The message names the invalid annotation or setting.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// One or more annotations of the pod are invalid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Annotations(Vec<AnnotationError>),
    /// The work for the pod exceeds the budget.
    #[error("pod: {0}")]
    Exhausted(#[from] Exhausted),
    /// A field of the pod that injection reads or extends does not have the type of the Kubernetes
    /// API.
    #[error("pod: {problem}")]
    Form {
        /// The keys that lead to the field.
        path: Vec<String>,
        /// The field and its required type.
        problem: String,
    },
    /// A conflict between an overlay and the pod.
    #[error("template {template:?}: {problem}")]
    Merge {
        /// The overlay's name.
        template: String,
        /// The conflict.
        problem: MergeError,
    },
    /// An overlay cannot be built.
    #[error(transparent)]
    Overlay(OverlayError),
    /// A conflict between user-supplied fields and an injected container.
    #[error(transparent)]
    UserContainer(UserContainerError),
    /// The pod itself cannot be injected.
    #[error("pod: {0}")]
    Pod(String),
    /// The pod exceeds a size limit.
    #[error("pod: {0}")]
    TooLarge(String),
    /// A container runs as the proxy's user, and the settings deny that.
    #[error("pod: {0}")]
    ProxyUser(Reason),
}

impl InjectError {
    /// Returns the word for logs and metrics, as [`Reason::word`].
    pub fn word(&self) -> &'static str {
        self.reason_word().as_str()
    }

    /// Returns the word's row in the table.
    pub fn reason_word(&self) -> &'static Word {
        match self {
            Self::Annotations(_) => words::BAD_ANNOTATION,
            Self::Exhausted(_) => words::TOO_EXPENSIVE,
            Self::Merge { .. } | Self::UserContainer(_) => words::MERGE_FAILED,
            Self::Overlay(OverlayError::NotFound { .. }) => words::UNKNOWN_TEMPLATE,
            Self::Overlay(_) => words::TEMPLATE_FAILED,
            Self::Form { .. } | Self::Pod(_) => words::BAD_POD,
            Self::ProxyUser(_) => words::PROXY_USER,
            Self::TooLarge(_) => words::POD_TOO_LARGE,
        }
    }

    /// Returns the message for logs, without the pod's values, which may be secret.
    pub fn without_values(&self) -> String {
        match self {
            Self::Annotations(errors) => {
                let keys: Vec<_> =
                    errors.iter().map(|error| excerpt::shorten(&error.key)).collect();
                format!("invalid annotations: {}", keys.join(", "))
            }
            Self::Merge { template, .. } => {
                format!("template {:?} cannot be merged into the pod", excerpt::shorten(template))
            }
            Self::UserContainer(UserContainerError { name, .. }) => {
                let name = excerpt::shorten(name);
                format!(
                    "the user-supplied fields of {name:?} cannot be merged with the injected \
                     container"
                )
            }
            Self::Overlay(OverlayError::NotFound {
                requested_by: TemplateSource::Annotation,
                ..
            }) => {
                format!("{} names an unknown template", TemplateSource::Annotation)
            }
            other => excerpt::shorten(&other.to_string()).into_owned(),
        }
    }
}

/// Invalid user-supplied fields of an injected container.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{origin} {name}: {problem}")]
pub struct UserContainerError {
    /// The container's name.
    pub name: String,
    pub(crate) origin: &'static str,
    pub(crate) problem: MergeError,
}
