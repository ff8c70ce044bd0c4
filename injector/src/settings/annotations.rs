//! Every honoured annotation: one table of name, type and meaning.

/// A wrong annotation value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("annotation {key}: {value:?} {problem}")]
pub struct AnnotationError {
    /// The annotation's key.
    pub key: &'static str,
    /// The value as the user wrote it.
    pub value: String,
    /// What is wrong with it and what is allowed.
    pub problem: String,
}
