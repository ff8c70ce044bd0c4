//! Hints of usage errors.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use documents::suggest;
use reason::hint::{SEPARATOR, on_lines};

use crate::cli::Cli;

/// Returns the text of a usage error, with tips for those who know Istio's `istioctl`. It suggests no
/// hidden flag, and nothing that is far from the word.
pub(super) fn usage_error(mut usage: clap::Error) -> String {
    let word = |kind| match usage.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    let command = Cli::command();
    if let Some(word) = word(ContextKind::InvalidSubcommand) {
        let hint = match place_of(&command, &word) {
            Some(path) => Some(format!("the command is {path}")),
            None => istios(&word).map(str::to_owned),
        };
        if let Some(hint) = hint {
            usage.remove(ContextKind::SuggestedSubcommand);
            return hinted(&usage, &hint);
        }
        if let Some(ContextValue::Strings(names)) = usage.remove(ContextKind::SuggestedSubcommand) {
            let near = names.into_iter().filter(|name| is_near(&word, name)).collect::<Vec<_>>();
            if !near.is_empty() {
                usage.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
            }
        }
        return usage.render().to_string();
    }
    let invalid = match word(ContextKind::InvalidArg) {
        Some(invalid) if usage.kind() == ErrorKind::UnknownArgument => invalid,
        _ => return usage.render().to_string(),
    };
    let suggested = word(ContextKind::SuggestedArg);
    // Behind `--`, a flag would be the name of a file or a pod.
    usage.remove(ContextKind::Suggested);
    if ISTIOS_FLAGS.contains(&&*invalid) {
        usage.remove(ContextKind::SuggestedArg);
        return hinted(&usage, ISTIOS_FLAG);
    }
    let suggested = suggested.as_ref().and_then(|flag| flag.split(['=', ' ']).next());
    if suggested.is_some_and(|flag| is_hidden(&command, flag) || !is_near(&invalid, flag)) {
        usage.remove(ContextKind::SuggestedArg);
    }
    let reads_files = usage.render().to_string().contains("--filename");
    if reads_files && Path::new(&invalid).exists() {
        return hinted(&usage, &format!("name files with -f: -f {invalid}"));
    }
    usage.render().to_string()
}

fn hinted(usage: &clap::Error, hint: &str) -> String {
    on_lines(&format!("{}{SEPARATOR}{hint}\n", usage.render().to_string().trim_end()))
}

fn is_near(word: &str, name: &str) -> bool {
    suggest::among(word, &[name]).is_some()
}

/// Returns the path of the command that has this name elsewhere.
fn place_of(command: &Command, name: &str) -> Option<String> {
    let is_it = |inner: &&Command| inner.get_name() == name && !inner.is_hide_set();
    if let Some(outer) = command.get_subcommands().find(is_it) {
        return Some(outer.get_name().to_owned());
    }
    command.get_subcommands().find_map(|outer| {
        outer.get_subcommands().find(is_it)?;
        let short = outer.get_visible_aliases().next().unwrap_or(outer.get_name());
        Some(format!("{short} {name}"))
    })
}

/// Returns the hint about a command that only Istio's `istioctl` has.
fn istios(name: &str) -> Option<&'static str> {
    if INSTALLING.contains(&name) {
        return Some("the manifests and the chart install and upgrade, by kubectl and Helm");
    }
    ISTIOS.contains(&name).then_some(
        "Istio's istioctl has this command, and this program does not; both can be in PATH: this one \
         is also called outrigger",
    )
}

fn is_hidden(command: &Command, flag: &str) -> bool {
    let is_it = |arg: &clap::Arg| arg.get_long().is_some_and(|long| flag == format!("--{long}"));
    command.get_arguments().any(|arg| arg.is_hide_set() && is_it(arg))
        || command.get_subcommands().any(|inner| is_hidden(inner, flag))
}

const ISTIOS_FLAG: &str = "commands of Istio's istioctl have this flag, and this one does not; both \
                           can be in PATH: this program is also called outrigger";
/// Flags of Istio's `istioctl` without a counterpart.
const ISTIOS_FLAGS: [&str; 10] = [
    "--ignoreUnmeshed",
    "--meshConfigFile",
    "--remote-contexts",
    "--revision",
    "--verbose",
    "--waypoint",
    "--xds-via-agents",
    "-f",
    "-r",
    "-v",
];
/// Commands of Istio's `istioctl` that install.
const INSTALLING: [&str; 7] =
    ["install", "manifest", "operator", "profile", "uninstall", "upgrade", "verify-install"];
/// Other commands of Istio's `istioctl`, at any level.
const ISTIOS: [&str; 25] = [
    "admin",
    "authz",
    "bug-report",
    "config",
    "create-remote-secret",
    "dash",
    "dashboard",
    "ecds",
    "envoy-stats",
    "internal-debug",
    "log",
    "metrics",
    "precheck",
    "remote-clusters",
    "revision",
    "rootca-compare",
    "service",
    "stats",
    "svc",
    "validate",
    "wait",
    "waypoint",
    "workload",
    "zc",
    "ztunnel-config",
];
