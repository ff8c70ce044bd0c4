//! Reference page of `pilot-agent`: commands, variables, annotations, node, files and ports.

use clap::CommandFactory;
use reference_pages::{Page, code};

use crate::arguments::Arguments;
use crate::cli::EXIT_CODES;
use crate::config::annotations::ANNOTATIONS;
use crate::environment::variables::{Effect, FAMILIES, VARIABLES, Variable};
use crate::layout::{PLACES, PORTS};
use crate::node;

fn reference() -> String {
    let used = VARIABLES.iter().filter(|variable| variable.effect == Effect::Used);
    let unused = VARIABLES.iter().filter_map(|variable| match variable.effect {
        Effect::Used => None,
        Effect::Expected(reason) => Some(row_without_effect(variable, reason, "debug")),
        Effect::Missing(reason) => Some(row_without_effect(variable, reason, "warning")),
    });
    let pairs = |table: &[(&str, &str)]| {
        table.iter().map(|(key, meaning)| [code(key), (*meaning).to_owned()]).collect()
    };
    Page::new("pilot-agent")
        .text(
            "`proxy` warns of unknown flags, since old templates pass flags that no longer exist. \
             Layers of `ProxyConfig` by rising precedence: Istio's defaults, `defaultConfig` of \
             the mesh file, flags, the variable `PROXY_CONFIG`, the annotation \
             `proxy.istio.io/config`, the annotations `sidecar.istio.io/discoveryAddress` and \
             `status.sidecar.istio.io/port`. `concurrency` comes from a layer, else from \
             `ISTIO_CPU_LIMIT`, else from the flag.",
        )
        .flags(&Arguments::command())
        .heading(2, "Variables")
        .text(
            "An empty value counts as unset. An invalid value ends the program; the message names \
             the variable.",
        )
        .table(
            ["variable", "default", "meaning"],
            used.map(|variable| {
                [code(variable.name), code(variable.default), variable.meaning.to_owned()]
            })
            .collect(),
        )
        .heading(2, "Families of variables")
        .table(
            ["variables", "meaning"],
            FAMILIES
                .iter()
                .map(|family| [code(&format!("{}*", family.prefix)), family.meaning.to_owned()])
                .collect(),
        )
        .heading(2, "Variables without effect")
        .text("The agent logs each that is set, with the reason and this level.")
        .table(["variable", "meaning", "reason", "level"], unused.collect())
        .heading(2, "Annotations")
        .text("They are read from the mounted file, so that a change applies to a running pod.")
        .table(["annotation", "meaning"], pairs(ANNOTATIONS))
        .heading(2, "Metadata of the node")
        .text(
            "Entries of `proxyMetadata` and variables `ISTIO_META_NAME` become the key `NAME`. \
             These keys come from the agent:",
        )
        .table(["key", "meaning"], pairs(node::KEYS))
        .text(&format!(
            "`ANNOTATIONS` has these: {}.",
            node::ANNOTATIONS.iter().map(|key| code(key)).collect::<Vec<_>>().join(", ")
        ))
        .heading(2, "Files")
        .table(
            ["path", "meaning"],
            PLACES.iter().map(|place| [code(place.path), place.meaning.to_owned()]).collect(),
        )
        .heading(2, "Ports")
        .table(
            ["port", "addresses", "meaning"],
            PORTS
                .iter()
                .map(|port| {
                    [port.number.to_string(), port.addresses.to_owned(), port.meaning.to_owned()]
                })
                .collect(),
        )
        .exit_codes(&EXIT_CODES)
        .into_text()
}

fn row_without_effect(variable: &Variable, reason: &str, level: &str) -> [String; 4] {
    [code(variable.name), variable.meaning.to_owned(), reason.to_owned(), level.to_owned()]
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/pilot-agent.md", &reference());
}

#[test]
fn manual_is_current() {
    reference_pages::check_manual(Arguments::command());
}
