//! Istio's published results, from the directory in `ISTIO_CASES`, back to their inputs.

use std::fmt::Write;

use injector::uninject::{Origin, uninject};

use crate::case::{Case, folder, read};
use crate::comparison::{differences, normal};
use crate::document::restored;

/// A table of all cases: documents that come back, doubts, and differences.
#[test]
fn istios_results_go_back_to_their_inputs() {
    if folder().is_none() {
        return;
    }
    let mut table = String::new();
    for case in Case::all().unwrap() {
        let file = case.has_an_expected_file().then(|| ("file".to_owned(), of_file(&case)));
        let outcomes = file.into_iter().chain(of_reviews(&case));
        for (place, outcome) in outcomes {
            writeln!(table, "{}, {place}: {outcome}", case.name).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

fn of_file(case: &Case) -> String {
    let (outputs, doubts) = restored(&read(&case.path("expected.yaml")));
    // An input may be injected itself.
    let (inputs, _) = restored(&read(&case.path("input.yaml")));
    assert_eq!(outputs.len(), inputs.len(), "{}", case.name);
    let pairs = outputs.into_iter().zip(inputs);
    let differences =
        pairs.flat_map(|(restored, input)| differences(&normal(restored), &normal(input)));
    outcome(&differences.collect::<Vec<_>>(), &doubts)
}

fn of_reviews(case: &Case) -> Vec<(String, String)> {
    let reviews = case.reviews().into_iter().filter(|review| review.verdict.patched);
    reviews
        .map(|review| {
            let place = format!("review {}", review.number);
            let origin = Origin::from_pod(&review.expected);
            let Some(uninjection) = uninject(&review.expected, &origin).unwrap() else {
                return (place, "not injected".to_owned());
            };
            let input = uninject(&review.pod, &Origin::from_pod(&review.pod)).unwrap();
            let input = input.map_or(review.pod, |uninjection| uninjection.pod);
            let differences = differences(&normal(uninjection.pod), &normal(input));
            (place, outcome(&differences, &uninjection.doubts))
        })
        .collect()
}

fn outcome(differences: &[String], doubts: &[reason::Reason]) -> String {
    let mut outcome = if differences.is_empty() { "equal" } else { "different" }.to_owned();
    for difference in differences {
        write!(outcome, "\n  {difference}").unwrap();
    }
    for doubt in doubts {
        write!(outcome, "\n  doubt: {} ({})", doubt.message(), doubt.word()).unwrap();
    }
    outcome
}
