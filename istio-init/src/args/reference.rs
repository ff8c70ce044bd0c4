//! Reference page of `istio-init`: its flags, variables and subcommands.

use reference_pages::{Page, code};

use super::command::{self, NAMES};
use super::env::Variable;
use super::flags::{FLAGS, FlagKind, FlagSpec, Support};
use crate::cli::EXIT_CODES;

fn reference() -> String {
    let (used, accepted): (Vec<_>, Vec<_>) =
        FLAGS.iter().partition(|spec| spec.support == Support::Implemented);
    let rows = |flags: Vec<&FlagSpec>| flags.into_iter().map(row).collect();
    let heads = ["flag", "variables", "default", "meaning"];
    let mut page = Page::new("istio-init")
        .text(
            "A flag overrides its environment variables, and the first named variable overrides \
             the second. A switch is set by `--flag` or `--flag=true`. A first argument \
             `istio-iptables` is ignored. See also [istio-init](../istio-init.md).",
        )
        .heading(2, "Flags of a run")
        .text(
            "Without a subcommand, the rules for these flags are installed. All subcommands take \
             them.",
        )
        .table(heads, rows(used))
        .heading(2, "Flags that change no run")
        .text(
            "Istio's program has these. A run is the same with and without them. `verify \
             --reconcile` repairs a difference.",
        )
        .table(heads, rows(accepted))
        .heading(2, "Variables without a flag")
        .table(
            ["variable", "default", "meaning"],
            Variable::ALL
                .map(|variable| {
                    [code(variable.name()), code(variable.default()), variable.help().to_owned()]
                })
                .to_vec(),
        );
    for name in NAMES {
        let command = command::grammar(name);
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        page =
            page.heading(2, &code(name)).text(&format!("{about}.")).flag_table(&command, |arg| {
                // The flags of a run are above.
                FLAGS.iter().all(|spec| arg.get_long() != Some(spec.long))
            });
    }
    page.exit_codes(&EXIT_CODES).into_text()
}

fn row(spec: &FlagSpec) -> [String; 4] {
    let long = match spec.kind {
        FlagKind::Bool => format!("--{}", spec.long),
        FlagKind::Text | FlagKind::Number | FlagKind::Duration => {
            format!("--{} {}", spec.long, spec.value)
        }
    };
    let short = spec.short.map(|short| format!("{}, ", code(&format!("-{short}"))));
    // Each variable overrides those before it.
    let variables: Vec<_> = spec.variables.iter().rev().map(|name| code(name)).collect();
    let (help, described) = match spec.help.split_once(" [default: ") {
        Some((help, default)) => (help, Some(default.trim_end_matches(']').to_owned())),
        None => (spec.help, None),
    };
    let default = described.unwrap_or_else(|| code(spec.default));
    [
        format!("{}{}", short.unwrap_or_default(), code(&long)),
        variables.join(", "),
        default,
        help.strip_prefix("Accepted: ").map_or(help.to_owned(), capitalized),
    ]
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/istio-init.md", &reference());
}

#[test]
fn manual_is_current() {
    let subcommands = NAMES.map(|name| command::grammar(name).name(name));
    reference_pages::check_manual(super::command().subcommands(subcommands));
}
