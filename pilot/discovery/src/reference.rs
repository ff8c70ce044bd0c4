//! Reference pages: flags, pages and metrics of `pilot-discovery`, and Istio's kinds.

use clap::CommandFactory;
use mesh::istio_kinds::{Access, ISTIO_KINDS, IstioKind};
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

fn istio_kinds() -> String {
    let row = |kind: &IstioKind| {
        let effect = kind.read_by.map_or("no".to_owned(), |by| format!("yes: {by}"));
        let access = if kind.access == Access::Opens { "yes" } else { "no" };
        [code(kind.kind), code(kind.group), effect, kind.without.to_owned(), access.to_owned()]
    };
    Page::new("Istio's kinds")
        .text(
            "What each kind of objects does in a mesh of `pilot-discovery`. `istioctl x precheck` \
             lists the objects that have no effect ([move from istiod](../mesh-migration.md)); \
             `pilot-discovery` names each once in its log, and counts them in \
             `outrigger_objects_without_effect`; it does not watch the Gateway API.",
        )
        .table(
            ["kind", "API group", "effect", "the mesh without it", "may restrict access"],
            ISTIO_KINDS.iter().map(row).collect(),
        )
        .text(
            "Of the Gateway API, `istioctl x precheck` lists gateways of the classes of Istio, and \
             routes of a Service. A workload is closed by each `AuthorizationPolicy` that selects it, \
             in its own namespace or in the root namespace, whatever its rules are; by `AUDIT` and \
             the annotation `istio.io/dry-run: \"true\"` none is. With `targetRefs`, a policy of a \
             Service closes the workloads of that Service, and one of a Gateway, GatewayClass or \
             ServiceEntry closes none. A part of the selection that cannot be read selects the whole \
             namespace. Pods without capture (`NONE`) take their connections without a proxy: there \
             is nothing to close, as in Istio.",
        )
        .into_text()
}

/// Table of the kinds with and without an effect, for pages that are not generated.
fn matrix() -> String {
    let mut groups: Vec<_> = ISTIO_KINDS.iter().map(|kind| kind.group).collect();
    groups.dedup();
    let names = |group: &str, has_effect: bool| {
        let kinds = ISTIO_KINDS.iter().filter(|kind| kind.group == group);
        let kinds = kinds.filter(|kind| kind.read_by.is_some() == has_effect);
        kinds.map(|kind| kind.kind).collect::<Vec<_>>().join(", ")
    };
    let rows = groups.iter().map(|group| [code(group), names(group, true), names(group, false)]);
    let page = Page::new("").table(["API group", "yes", "no"], rows.collect()).into_text();
    let lines = page.lines().filter(|line| line.starts_with('|'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn page_of_istio_kinds_is_current() {
    reference_pages::check("reference/istio-kinds.md", &istio_kinds());
}

#[test]
fn matrix_of_kinds_is_current() {
    let matrix = matrix();
    for (page, text) in [
        ("README.md", include_str!("../../../README.md")),
        ("docs/differences.md", include_str!("../../../docs/differences.md")),
    ] {
        assert!(text.contains(&matrix), "{page} needs this table:\n{matrix}");
    }
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/pilot-discovery.md", &reference());
}

#[test]
fn manual_is_current() {
    reference_pages::check_manual(Arguments::command());
}
