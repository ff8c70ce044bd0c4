//! Reference page of `install-cni`: flags, variables, metrics and Events.

use clap::CommandFactory;
use reference_pages::{Page, code};

use crate::absent_args::{VARIABLES_WITHOUT_EFFECT, WITHOUT_EFFECT};
use crate::args::Arguments;
use crate::cli::EXIT_CODES;
use crate::metrics::METRICS;
use crate::reconciler::EVENTS;

fn reference() -> String {
    let flags = WITHOUT_EFFECT.iter().map(|(flag, reason)| (format!("--{flag}"), *reason));
    let variables =
        VARIABLES_WITHOUT_EFFECT.iter().map(|(name, reason)| ((*name).to_owned(), *reason));
    let without_effect = flags.chain(variables);
    let metrics = METRICS.map(|(name, labels, help)| [code(name), code(labels), help.to_owned()]);
    let events = EVENTS.map(|(reason, object, help)| [code(reason), object.into(), help.into()]);
    Page::new("install-cni")
        .text(
            "The node agent of the [CNI plugin](../cni.md). Without a command, it runs until it is \
             terminated. Each flag also has the variable that stands beside it.",
        )
        .flags(&Arguments::command())
        .heading(2, "Without effect")
        .text("These flags and variables of Istio's are accepted with a warning:")
        .table(
            ["flag or variable", "reason, or what to use"],
            without_effect.map(|(name, reason)| [code(&name), reason.to_owned()]).collect(),
        )
        .heading(2, "Metrics")
        .text("On `--monitoring-port`, at `/metrics`. Names are Istio's where they mean the same.")
        .table(["metric", "labels", "meaning"], metrics.into())
        .heading(2, "Events")
        .table(["reason", "object", "meaning"], events.into())
        .exit_codes(&EXIT_CODES)
        .into_text()
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/install-cni.md", &reference());
}

#[test]
fn manual_is_current() {
    reference_pages::check_manual(Arguments::command());
}
