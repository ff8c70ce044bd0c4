//! Replacement of `traces` in builds without the feature `opentelemetry`.

use std::convert::Infallible;

use axum::http::HeaderMap;

use super::metrics::{CallResult, Metrics};
use super::subject::ReviewedPod;

/// Destination that ignores all spans.
#[derive(Clone, Debug, Default)]
pub struct Traces(());

/// Error of the tracing setup, which cannot fail here.
pub type TracesError = Infallible;

impl Traces {
    /// Returns a destination that ignores all spans, whatever the environment asks for.
    pub fn from_environment(_revision: &str, _metrics: &mut Metrics) -> Result<Self, TracesError> {
        Ok(Self(()))
    }

    #[expect(clippy::unused_self, reason = "the form that it has with the feature")]
    pub(in crate::webhook) fn begin(&self, _headers: &HeaderMap) -> CallSpan {
        CallSpan
    }

    #[expect(clippy::unused_self, reason = "the form that it has with the feature")]
    pub(in crate::webhook) fn end(&self) {}
}

/// Span without content.
#[derive(Debug)]
pub(in crate::webhook) struct CallSpan;

impl CallSpan {
    #[expect(clippy::unused_self, reason = "the form that it has with the feature")]
    pub(in crate::webhook) fn finish(
        self,
        _: Option<&ReviewedPod>,
        _: CallResult,
        _: &'static str,
    ) {
    }
}
