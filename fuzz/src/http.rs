//! HTTP requests of a client of the webhook.

use std::sync::{Arc, LazyLock};

use injector::settings::Process;
use injector::sources::Texts;
use injector::webhook::fuzzing::answers;
use injector::webhook::reload::Configuration;
use injector::webhook::telemetry::metrics::Metrics;
use serde_json::Value;

/// Fuzzes all data that a client sends on one connection.
pub fn requests(data: &[u8]) {
    let answers = answers(Arc::clone(&CONFIGURATION), data).expect("a connection in memory");
    if answers.is_empty() {
        return;
    }
    let head = answers.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    let (head, body) = answers.split_at(head + 4);
    let head = std::str::from_utf8(head).expect("a head of text");
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).expect(head);
    // A panic would be 500. This client has the only review slot, so it is never 503.
    assert!(["200", "307"].contains(&status) || status.starts_with('4'), "{head}");
    if status == "200" {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|length| length.parse().ok()).expect(head);
        let review: Value = serde_json::from_slice(&body[..length]).expect("an answer is JSON");
        assert!(review["response"]["uid"].is_string(), "{review}");
    }
}

static CONFIGURATION: LazyLock<Arc<Configuration>> = LazyLock::new(|| {
    let configuration = Configuration::new(Process::default(), Arc::new(Metrics::new()));
    configuration.offer(&Texts::default()).expect("the built-in documents");
    Arc::new(configuration)
});
