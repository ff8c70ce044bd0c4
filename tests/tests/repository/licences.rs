//! Licences and sources of all dependencies, as `deny.toml` allows them.

use std::env;
use std::process::Command;

use e2e::programs::repository;
use serde_json::{Value, json};
use spdx::{Expression, ParseMode};

/// The only registry.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn dependencies_have_allowed_licences_and_sources() {
    let allowed = allowed_licences(&read("deny.toml"));
    assert!(allowed.contains(&"MIT".to_owned()), "{allowed:?}");
    let metadata = metadata();
    assert!(metadata["packages"].as_array().unwrap().len() > 100);
    assert_eq!(problems(&metadata, &allowed), Vec::<String>::new());
}

#[test]
fn forbidden_licences_and_sources_are_found() {
    let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    let table = [
        (json!("MIT"), json!(REGISTRY), None),
        (json!("GPL-3.0-only OR MIT"), json!(REGISTRY), None),
        (json!("Unlicense/MIT"), json!(REGISTRY), None),
        (json!("MIT AND Apache-2.0 WITH LLVM-exception"), json!(REGISTRY), None),
        (json!("GPL-3.0-only"), json!(REGISTRY), Some("its licence GPL-3.0-only is not allowed")),
        (json!("MIT AND ISC"), json!(REGISTRY), Some("its licence ISC is not allowed")),
        (json!("Apache-2.0"), json!(REGISTRY), Some("its licence Apache-2.0 is not allowed")),
        (json!("free"), json!(REGISTRY), Some("its licence `free` cannot be read")),
        (json!(null), json!(REGISTRY), Some("it names no licence")),
        (json!("MIT"), json!("git+https://example.com/a"), Some("git+https://example.com/a")),
        (json!("MIT"), json!("registry+https://example.com/"), Some("registry+https://example")),
        // A package of this tree.
        (json!("MIT"), json!(null), None),
    ];
    for (license, source, expected) in table {
        let package =
            json!({"name": "a", "version": "1.0.0", "license": license, "source": source});
        let found = problems(&json!({"packages": [package]}), &allowed);
        match expected {
            Some(part) => assert!(found.len() == 1 && found[0].contains(part), "{found:?}"),
            None => assert_eq!(found, Vec::<String>::new(), "{license} {source}"),
        }
    }
}

/// Messages about packages with a licence or source that is not allowed.
fn problems(metadata: &Value, allowed: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let (name, version) =
            (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let mut report = |problem: String| problems.push(format!("{name} {version}: {problem}"));
        if let Some(source) = package["source"].as_str()
            && source != REGISTRY
        {
            report(format!("its source {source} is not allowed"));
        }
        match package["license"].as_str() {
            Some(license) => check_licence(license, allowed).into_iter().for_each(report),
            None => report("it names no licence".to_owned()),
        }
    }
    problems
}

/// Returns what is wrong with a licence expression, if anything.
fn check_licence(license: &str, allowed: &[String]) -> Option<String> {
    // Lax: the registry has packages from the time when `/` meant `OR`.
    let Ok(expression) = Expression::parse_mode(license, ParseMode::LAX) else {
        return Some(format!("its licence `{license}` cannot be read"));
    };
    let is_allowed = |item: &str| allowed.iter().any(|one| one == item);
    if expression.evaluate(|requirement| is_allowed(&requirement.to_string())) {
        return None;
    }
    let refused: Vec<_> = expression
        .requirements()
        .map(|requirement| requirement.req.to_string())
        .filter(|item| !is_allowed(item))
        .collect();
    Some(format!("its licence {} is not allowed", refused.join(", ")))
}

/// The strings of `allow` in the section `[licenses]`.
fn allowed_licences(deny: &str) -> Vec<String> {
    let (_, section) = deny.split_once("[licenses]").unwrap();
    let (_, list) = section.split_once("allow = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let items = list.split(',').map(|item| item.trim().trim_matches('"').to_owned());
    items.filter(|item| !item.is_empty()).collect()
}

/// Packages on the platforms that are built for, as cargo lists them.
fn metadata() -> Value {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--locked", "--format-version", "1", "--all-features"]);
    cargo.current_dir(repository());
    cargo.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    cargo.args(["--filter-platform", "aarch64-unknown-linux-gnu"]);
    let output = cargo.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(repository().join(name)).unwrap()
}
