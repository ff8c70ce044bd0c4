//! Removal of injections, by this injector and by Istio.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panic, and says what it leaves out"
)]

#[path = "../istio_cases/case.rs"]
#[allow(dead_code, reason = "the tests of injection use the rest of it")]
mod case;
#[path = "../istio_cases/comparison.rs"]
mod comparison;
mod document;
#[path = "../istio_cases/pods.rs"]
mod pods;
mod properties;
mod published;
mod rules;
mod text;
