//! Reference page of `istioctl`.

use clap::CommandFactory;
use reference_pages::{Page, code};

use crate::cli::Cli;
use crate::istio_flags;

fn reference() -> String {
    let rows = |flags: &[[&'static str; 2]]| {
        flags.iter().map(|[name, default]| [code(&format!("--{name}")), code(default)]).collect()
    };
    let [log, control_plane] = istio_flags::hidden();
    Page::new("istioctl")
        .text(
            "A flag overrides its environment variable. `x` is short for `experimental`. See also \
             [kube-inject](../kube-inject.md), [uninject](../uninject.md), [tag](../tag.md), \
             [analyze](../analyze.md) and \
             [Reports](../reports.md).",
        )
        .flags(&Cli::command())
        .heading(2, "Flags of Istio's istioctl")
        .text("Every command accepts these flags without effect, because it logs nothing:")
        .table(["flag", "default"], rows(&log))
        .text(
            "Every command accepts these flags with their defaults only, because it asks no \
             control plane. `kube-inject` also accepts `--webhookConfig` without effect.",
        )
        .table(["flag", "default"], rows(&control_plane))
        .into_text()
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/istioctl.md", &reference());
}
