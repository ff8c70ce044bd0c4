//! Tables of Istio's decisions and output, one row per behaviour, through the whole injection.
//!
//! If `ISTIO_CASES` names the directory of Istio's own cases, each pod is also injected with the
//! chart's templates, and both results must be the same.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panic")]

mod annotations;
#[path = "../istio_cases/comparison.rs"]
mod comparison;
mod decisions;
mod files;
mod fixture;
mod images;
mod inputs;
mod metrics;
mod networks;
mod openshift;
mod overrides;
mod probes;
mod reinjection;
mod spans;
mod workloads;
