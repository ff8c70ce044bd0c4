//! What stands for traces in a program that was built without the feature `opentelemetry`.

use std::convert::Infallible;

use axum::http::HeaderMap;

use super::metrics::{CallResult, Metrics};
use super::subject::Subject;

/// Nowhere that spans could go.
#[derive(Clone, Debug, Default)]
pub struct Traces(());

/// Why nothing can be traced; here, that is no error.
pub type TracesError = Infallible;

impl Traces {
    /// Whatever the environment asks for.
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

/// No span.
#[derive(Debug)]
pub(in crate::webhook) struct CallSpan;

impl CallSpan {
    #[expect(clippy::unused_self, reason = "the form that it has with the feature")]
    pub(in crate::webhook) fn finish(self, _: Option<&Subject>, _: CallResult, _: &'static str) {}
}
