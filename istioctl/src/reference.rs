//! Reference page of `istioctl`.

use reference_pages::{Page, code, files};
use serde_json::Value;

use crate::exit_code::EXIT_CODES;
use crate::istio_flags;
use crate::program::Program;

fn reference() -> String {
    let rows = |flags: &[[&'static str; 2]]| {
        flags.iter().map(|[name, default]| [code(&format!("--{name}")), code(default)]).collect()
    };
    let [log, control_plane] = istio_flags::hidden();
    let codes = EXIT_CODES.iter().map(|(number, commands, meaning)| {
        let commands: Vec<_> = commands.iter().map(|name| code(name)).collect();
        let commands = if commands.is_empty() { "all".to_owned() } else { commands.join(", ") };
        [number.to_string(), commands, (*meaning).to_owned()]
    });
    Page::new("istioctl")
        .text(
            "A flag overrides its environment variable. `x` is short for `experimental`. See also \
             [kube-inject](../kube-inject.md), [uninject](../uninject.md), [tag](../tag.md), \
             [analyze](../analyze.md), \
             [Reports](../reports.md) and [JSON schemas](schemas.md).",
        )
        .flags(&Program::Istioctl.command())
        .heading(2, "Exit codes")
        .table(["code", "commands", "meaning"], codes.collect())
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

/// Page of the schemas, from their titles and descriptions.
fn schemas() -> String {
    let row = |(file, text): (String, String)| {
        let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
        let part = |name: &str| schema[name].as_str().unwrap_or_default().to_owned();
        let command = code(&part("title"));
        [format!("[{file}](../schemas/{file})"), command, part("description").replace(STABLE, "")]
    };
    Page::new("JSON schemas")
        .text(
            "Outputs for programs have these schemas, by JSON Schema 2020-12. Members may be \
             added; none is removed or renamed. Where a command has `-o yaml`, it is the same \
             value. The tests validate outputs by them.",
        )
        .table(["schema", "command", "value"], files("schemas").into_iter().map(row).collect())
        .text("[plan.schema.json](../plan.schema.json) is that of `istio-init plan -o json`.")
        .into_text()
}

/// Sentence at the end of each schema's description.
const STABLE: &str = " Members may be added; none is removed or renamed.";

#[test]
fn schemas_page_is_current() {
    reference_pages::check("reference/schemas.md", &schemas());
}

#[test]
fn manual_is_current() {
    reference_pages::check_manual(Program::Istioctl.command());
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/istioctl.md", &reference());
}
