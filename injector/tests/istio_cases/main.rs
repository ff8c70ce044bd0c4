//! Istio's own injection cases, from the directory in `ISTIO_CASES`: the results are the same.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panic, and says what it leaves out"
)]

mod again;
mod case;
mod choices;
mod generated;
mod normal;
mod pods;

use case::{Case, Overlays};

#[test]
fn reviews_give_istios_pods() {
    check(|case| case.run_reviews(Overlays::BuiltIn));
}

#[test]
fn reviews_give_istios_pods_with_its_templates() {
    check(|case| case.run_reviews(Overlays::Templates));
}

#[test]
fn files_give_istios_workloads() {
    check(|case| case.run_file(Overlays::BuiltIn));
}

#[test]
fn files_give_istios_workloads_with_its_templates() {
    check(|case| case.run_file(Overlays::Templates));
}

fn check(run: impl Fn(&Case) -> Result<usize, String>) {
    let Some(cases) = Case::all() else { return };
    let mut failures = Vec::new();
    let mut equal = 0;
    for case in &cases {
        if let Some(reason) = case.differs() {
            println!("{}: not compared: {reason}", case.name);
            continue;
        }
        match run(case) {
            Ok(count) => equal += count,
            Err(failure) => failures.push(format!("--- {}\n{failure}", case.name)),
        }
    }
    println!("{equal} are equal to Istio's");
    assert!(failures.is_empty(), "{} cases differ:\n{}", failures.len(), failures.join("\n"));
    assert!(equal > 0, "no case ran");
}
