//! Reference page of `pilot-discovery`: flags, pages and metrics.

use clap::CommandFactory;
use reference_pages::{Page, code};

use crate::args::Arguments;
use crate::certificates::CA_METRICS;
use crate::cli::EXIT_CODES;
use crate::debug::PAGES;
use crate::environment::WITHOUT_EFFECT;
use crate::metrics::METRICS;

fn reference() -> String {
    let pages = PAGES.map(|(path, meaning)| [code(path), meaning.to_owned()]);
    let without_effect = WITHOUT_EFFECT.map(|(name, reason)| [code(name), reason.to_owned()]);
    let metrics = METRICS.iter().chain(&CA_METRICS);
    let metrics =
        metrics.map(|(name, labels, help)| [code(name), code(labels), (*help).to_owned()]);
    Page::new("pilot-discovery")
        .text(
            "An empty address switches a listener off. See also [Installation](../install.md).",
        )
        .flags(&Arguments::command())
        .heading(2, "Environment")
        .text(
            "`PILOT_MAX_REQUESTS_PER_SECOND` limits the streams that proxies open; 0, the default, is \
             no limit, since a proxy that reconnects gets only what differs. The log warns of other \
             variables that begin with `PILOT_`, and of these:",
        )
        .table(["variable without effect", "reason, or what to use"], without_effect.into())
        .heading(2, "Pages")
        .text(
            "On `--httpAddr`. Pages below `/debug/` are for clients on loopback; on \
             `--secureGRPCAddr` they are for tokens and certificates of the control plane's \
             namespace.",
        )
        .table(["path", "meaning"], pages.into())
        .heading(2, "Metrics")
        .text("On `--monitoringAddr`, at `/metrics`. Names are Istio's where they mean the same.")
        .table(["metric", "labels", "meaning"], metrics.collect())
        .exit_codes(&EXIT_CODES)
        .into_text()
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/pilot-discovery.md", &reference());
}

#[test]
fn manual_is_current() {
    reference_pages::check_manual(Arguments::command());
}
