//! Istio's own injection cases, from the directory in `ISTIO_CASES`: the results are the same.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panic, and says what it leaves out"
)]

mod again;
#[allow(dead_code, reason = "the tests of istioctl use the rest of it")]
mod case;
mod choices;
mod generated;
mod normal;
mod pods;

use case::{Overlays, check};

#[test]
fn reviews_give_istios_pods() {
    check(|case| case.run_reviews(Overlays::BuiltIn));
}

#[test]
fn reviews_give_istios_pods_with_its_templates() {
    check(|case| case.run_reviews(Overlays::Templates));
}
