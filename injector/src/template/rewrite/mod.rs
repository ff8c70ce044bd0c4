//! Rewriting of template sources for the engine: Go semantics that it lacks, and metering.

mod actions;
pub(crate) mod edits;
pub(crate) mod metered;
pub(crate) mod method_chains;
pub(crate) mod nesting;
pub(crate) mod string_literals;
mod tokens;
