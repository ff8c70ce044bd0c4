//! The tests named in docs/security.md exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use e2e::programs::repository;

/// A row of the table names its tests between backticks. Words with underscores are tests. Paths
/// from the root of the repository are the files of the tests, or folders above them.
#[test]
fn every_test_named_by_a_threat_exists() {
    let text = fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let (table, _) = text.split_once("\n## ").unwrap();
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect();
    let tests = tests();
    assert!(rows.len() > 20 && tests.len() > 500, "{} rows, {} tests", rows.len(), tests.len());
    for row in rows {
        let [threat, answer, pinned] = row[..] else { panic!("not three cells: {row:?}") };
        assert!(!answer.is_empty(), "{threat}: no answer");
        let words: Vec<&str> = pinned.split('`').skip(1).step_by(2).collect();
        let (files, named): (Vec<&str>, Vec<&str>) = words
            .into_iter()
            .filter(|word| word.contains('_') || is_path(word))
            .partition(|word| is_path(word));
        assert!(!named.is_empty(), "{threat}: no test");
        for file in &files {
            assert!(repository().join(file).exists(), "{threat}: no file {file}");
        }
        for test in named {
            let found = tests.get(test).unwrap_or_else(|| panic!("{threat}: no test {test}"));
            let is_there = files.iter().any(|file| found.iter().any(|path| path.starts_with(file)));
            assert!(is_there, "{threat}: {test} is in {found:?}, and not in any of {files:?}");
        }
    }
}

/// True for paths such as `limits.rs` and `webhook-certs/tests/cluster`.
fn is_path(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|one| one == "rs") || word.contains('/')
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split(" | ").map(str::trim).collect()
}

/// Returns the files of each test function.
fn tests() -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut found: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut folders = [
        "cni",
        "documents",
        "injector",
        "istio-init",
        "istioctl",
        "local-files",
        "pilot",
        "tests",
        "webhook-certs",
    ]
    .map(|one| repository().join(one))
    .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for test in functions_of_tests(&text) {
                let (test, file) = match test.rsplit_once("::") {
                    Some((module, story)) => (story, path.with_file_name(format!("{module}.rs"))),
                    None => (test, path.clone()),
                };
                let file = file.strip_prefix(repository()).unwrap().to_owned();
                found.entry(test.to_owned()).or_default().insert(file);
            }
        }
    }
    found
}

/// Returns the name in `Trial::test("name", …)`.
fn trial(line: &str) -> Option<&str> {
    line.split_once("Trial::test(\"")?.1.split('"').next()
}

/// Returns the functions after `#[test]` and similar attributes, and the tests listed by a harness
/// of our own, with their modules.
fn functions_of_tests(text: &str) -> Vec<&str> {
    let is_harness = ["libtest_mimic::", "e2e::phases"].iter().any(|one| text.contains(one));
    let mut is_marked = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        match function {
            Some(rest) if is_marked => found.extend(rest.split(['(', '<']).next()),
            _ if is_harness && is_listed(alone(line)) => found.push(alone(line)),
            _ if is_harness => found.extend(trial(line)),
            _ => {}
        }
        let is_attribute = line.starts_with("#[");
        is_marked = is_attribute && (is_marked || line.contains("test]") || line.contains("test("));
    }
    found
}

/// Returns what `stories![…],` has on one line.
fn alone(line: &str) -> &str {
    line.trim_start_matches("stories![").trim_end_matches("],")
}

/// True for `module::test` alone on its line.
fn is_listed(line: &str) -> bool {
    line.contains('_')
        && line
            .chars()
            .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || "_:".contains(one))
}
