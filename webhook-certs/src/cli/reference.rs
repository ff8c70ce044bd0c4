//! Reference page of `webhook-certs`: flags and Events.

use reference_pages::{Page, code};

use super::grammar;
use crate::cluster::events;

fn reference() -> String {
    let rows = events::rows().map(|[reason, kind, when]| [code(reason), kind.into(), when.into()]);
    Page::new("webhook-certs")
        .text(
            "A flag overrides its environment variable. Durations are Go's, such as `1m30s`. See \
             also [Installation](../install.md).",
        )
        .flags(&grammar())
        .heading(2, "Events")
        .text(
            "On the CA Secret, written by `webhook-certs serve` and by replicas of \
             `sidecar-injector`.",
        )
        .table(["reason", "type", "when"], rows.collect())
        .exit_codes(&super::EXIT_CODES)
        .into_text()
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/webhook-certs.md", &reference());
}

#[test]
fn manual_is_current() {
    reference_pages::check_manual(grammar());
}
