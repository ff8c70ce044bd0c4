//! Tables of what Istio decides, infers and writes, a row a behaviour, through the whole injection.
//!
//! Where `ISTIO_CASES` names the directory of Istio's own cases, each pod is injected with the
//! chart's templates as well, and both must give the same.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panic")]

mod annotations;
mod decisions;
mod files;
mod images;
mod inputs;
mod metrics;
mod networks;
#[path = "../istio_cases/normal.rs"]
mod normal;
mod openshift;
mod overrides;
mod probes;
mod reinjection;
mod spans;
mod stage;
mod workloads;
