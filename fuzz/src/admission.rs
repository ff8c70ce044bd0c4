//! `AdmissionReview`s as an API server sends them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use injector::inject::cluster_state::ClusterFacts;
use injector::inject::inject;
use injector::webhook::admission::review;
use injector::webhook::admission::verdict::Admission;
use serde_json::Value;

use crate::pods::settings;

/// Fuzzes the body of an admission call.
pub fn review(data: &[u8]) {
    let asked = match review::parse(data) {
        Ok(review) => review,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    // A lone surrogate in an unknown field is accepted by the parser of reviews, but
    // `serde_json::Value` cannot represent it.
    let Ok(question) = serde_json::from_slice::<Value>(data) else { return };
    let admission = Admission::new(inject);
    let verdict = admission.decide(settings(true), ClusterFacts::default(), asked, &[]);
    let answer = verdict.response.to_json().expect("an answer can be written");
    check_answer(&question["request"], &answer);
}

/// Checks that the answer is a review with the request's `uid`, that its patch applies to the
/// object, and that a denial has a message.
pub fn check_answer(request: &Value, answer: &[u8]) {
    let answer: Value = serde_json::from_slice(answer).expect("an answer is JSON");
    assert_eq!(answer["kind"], "AdmissionReview");
    let response = &answer["response"];
    assert_eq!(response["uid"].as_str(), Some(request["uid"].as_str().unwrap_or_default()));
    if response["allowed"] != true {
        let message = response["status"]["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty(), "a denial without a reason: {answer}");
        return;
    }
    for warning in response["warnings"].as_array().into_iter().flatten() {
        let warning = warning.as_str().expect("a warning is text");
        assert!(!warning.contains(char::is_control), "{warning:?}");
    }
    assert_eq!(response["patch"].is_string(), response["patchType"] == "JSONPatch");
    if let Some(patch) = response["patch"].as_str() {
        let patch = STANDARD.decode(patch).expect("a patch is base64");
        let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a JSON patch");
        json_patch::patch(&mut request["object"].clone(), &patch).expect("a patch that applies");
    }
}
