//! Istio's own injection cases, from the directory in `ISTIO_CASES`: the results are the same.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panic, and says what it leaves out"
)]

#[allow(dead_code, reason = "the tests of istioctl use the rest of it")]
mod case;
mod choices;
mod comparison;
mod generated;
mod pods;
mod reinjection;

use case::{Overlays, check};

#[test]
fn reviews_produce_istios_pods() {
    check(|case| case.run_reviews(Overlays::BuiltIn));
}

#[test]
fn reviews_with_istios_templates_produce_istios_pods() {
    check(|case| case.run_reviews(Overlays::Templates));
}
