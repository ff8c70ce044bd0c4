//! Commands of the documentation that cannot run here, and their checks.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::markdown::Page;
use e2e::netns::succeed;
use e2e::programs::repository;
use e2e::shown_command::commands;
use serde_json::Value;

use crate::fixture::{Fixture, OWN};

/// Beginnings of commands, with the reason for which they do not run.
const NOT_RUN: &[(&str, &str)] = &[
    ("apt-get install", "changes the machine"),
    ("cd dist/release", "needs a release: tests/tests/packages looks into one"),
    ("ctr --namespace k8s.io", "needs a node"),
    ("curl --cacert root-cert.pem", "needs the DNS of a pod"),
    ("docker load", "there is no container engine"),
    ("for image in dist/", "there is no container engine"),
    ("istioctl completion fish", "a line of fish"),
    ("istioctl completion powershell", "a line of PowerShell"),
    ("istioctl proxy-config", "needs a node: tests/tests/mesh/commands.rs runs it"),
    ("istioctl proxy-status", "needs a node: tests/tests/mesh/commands.rs runs it"),
    ("istioctl version", "needs proxies that run"),
    ("istioctl x describe pod", "needs a pod of this name: istioctl/tests/reports has others"),
    ("istioctl x graph", "needs the pods of a control plane"),
    ("istioctl x why", "needs a node: tests/tests/mesh/commands.rs runs it"),
    (
        "kubectl -n istio-cni rollout status",
        "needs a node with shared mounts: tests/tests/node/cni.rs runs the agent",
    ),
    ("kubectl -n istio-system delete daemonset", "needs Istio's node agent"),
    ("kubectl -n istio-system logs", "needs a node"),
    ("kubectl -n istio-system port-forward", "needs a node"),
    ("kubectl -n shop rollout status", "needs a node"),
    ("kubectl debug", "needs a node"),
    ("kubectl drain", "needs a node"),
    ("kubectl exec", "needs a node: the stories in tests/tests/node run such commands"),
    ("kubectl logs", "needs a node"),
    ("oras cp", "needs a registry"),
    ("packaging/push.sh", "needs a registry"),
    ("rustup target add", "changes the machine"),
    ("sha256sum --check", "needs a release: tests/tests/packages looks into one"),
    ("skopeo copy", "needs a registry"),
    ("source <(istioctl completion zsh)", "a line of zsh"),
    ("sudo dpkg", "changes the machine"),
];

/// Checks a command that does not run. Returns `false` for one that has to run.
pub(crate) fn check(fixture: &Fixture, command: &str) -> Result<bool> {
    let is_variable = |word: &&str| word.contains('=') && !word.starts_with('-');
    let words: Vec<_> = command.split_whitespace().skip_while(is_variable).collect();
    match words[..] {
        ["make", target, ..] => return check_target(target).map(|()| true),
        ["cargo", ..] => return check_cargo(&words).map(|()| true),
        _ => {}
    }
    if exception(command).is_none() {
        return Ok(false);
    }
    if words[0] == "kubectl" || OWN.contains(&words[0]) {
        check_flags(fixture, &words)?;
    }
    Ok(true)
}

/// Fails for an exception that no page needs.
pub(crate) fn expect_each_names_a_command(pages: &[Page]) -> Result<()> {
    let parts = pages.iter().flat_map(|page| &page.parts);
    let used: BTreeSet<_> =
        parts.flat_map(commands).filter_map(|shown| exception(&shown.text)).collect();
    let unused: Vec<_> =
        NOT_RUN.iter().map(|(begins, _)| *begins).filter(|begins| !used.contains(begins)).collect();
    ensure!(unused.is_empty(), "no page has a command that begins with {unused:?}");
    Ok(())
}

/// Returns the beginning of the commands to which a command belongs that does not run.
fn exception(command: &str) -> Option<&'static str> {
    NOT_RUN.iter().map(|(begins, _)| *begins).find(|begins| command.starts_with(begins))
}

/// Checks that the help of a command has each of its flags. What follows `--`, and another program
/// of a pipe, are not looked at.
fn check_flags(fixture: &Fixture, words: &[&str]) -> Result<()> {
    let is_own = |word: &&&str| !["--", "|", "&", "&&", ">", ";"].contains(*word);
    let words: Vec<_> = words.iter().take_while(is_own).copied().collect();
    let program = fixture.program(words[0])?;
    let help = |args: &[&str]| succeed(Command::new(&program).args(args), "");
    // A word after a flag is its value.
    let names = words.windows(2).filter(|pair| !pair[0].starts_with('-') && is_name(pair[1]));
    let names: Vec<_> = names.map(|pair| pair[1]).collect();
    // The last names may be arguments.
    let mut helps =
        (0..=names.len()).rev().map(|count| help(&[&names[..count], &["--help"][..]].concat()));
    let mut known = helps.find_map(Result::ok).context("no command has a help")?;
    if words[0] == "kubectl" {
        known += &help(&["options"])?;
    }
    for flag in words.iter().filter(|word| word.starts_with('-') && word.len() > 1) {
        let flag = flag.split('=').next().unwrap_or_default();
        let knows = |line: &str| {
            let mut words = line.split([' ', ',', '=', '[', ':', '\t']);
            words.any(|word| word == flag)
        };
        ensure!(known.lines().any(knows), "the help of {names:?} has no {flag}");
    }
    Ok(())
}

/// True for a word that may be the name of a subcommand.
fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        && !word.starts_with('-')
}

fn check_target(target: &str) -> Result<()> {
    let makefile = std::fs::read_to_string(repository().join("Makefile"))?;
    let defines = |line: &str| line.split_once(':').is_some_and(|(name, _)| name == target);
    ensure!(makefile.lines().any(defines), "the Makefile has no target {target}");
    Ok(())
}

/// Checks that the packages, test programs and programs of a cargo command exist.
fn check_cargo(words: &[&str]) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--locked", "--no-deps", "--format-version=1"]);
    let metadata = succeed(cargo.current_dir(repository()), "")?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let names = |list: &Value| -> BTreeSet<String> {
        let names = list.as_array().into_iter().flatten();
        names.filter_map(|one| one["name"].as_str()).map(str::to_owned).collect()
    };
    let targets: BTreeSet<_> =
        packages.iter().flat_map(|package| names(&package["targets"])).collect();
    let packages = names(&metadata["packages"]);
    for pair in words.windows(2) {
        let known = match pair[0] {
            "-p" | "--package" => &packages,
            "--test" | "--bench" => &targets,
            _ => continue,
        };
        ensure!(known.contains(pair[1]), "cargo has no {}", pair.join(" "));
    }
    Ok(())
}
