//! Every target on its corpus and on damaged copies, which are the same in every run.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

mod damage;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fuzz::{TARGETS, Target};
use libtest_mimic::{Arguments, Failed, Trial};

use damage::Damage;

fn main() -> ExitCode {
    let mut trials: Vec<_> = TARGETS
        .iter()
        .map(|target| Trial::test(target.name.to_owned(), || holds(*target)))
        .collect();
    trials.push(Trial::test("every_corpus_is_of_a_target", every_corpus_is_of_a_target));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn holds(target: Target) -> Result<(), Failed> {
    let files = files(&corpus().join(target.name));
    let inputs: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    for (file, input) in files.iter().zip(&inputs) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        run(target, input).map_err(|problem| format!("{name}: {problem}"))?;
        for number in 0..DAMAGES {
            let damaged = Damage::new(&name, number).done_to(input, &inputs);
            run(target, &damaged).map_err(|problem| {
                format!(
                    "{name}, damage {number}: {problem}\ninput: b\"{}\"",
                    damaged.escape_ascii()
                )
            })?;
        }
    }
    Ok(())
}

fn run(target: Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
    })
}

fn every_corpus_is_of_a_target() -> Result<(), Failed> {
    let folders = fs::read_dir(corpus())?.map(|entry| entry.unwrap().file_name());
    let folders: BTreeSet<_> = folders.map(|name| name.into_string().unwrap()).collect();
    let targets: BTreeSet<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(folders, targets);
    for target in TARGETS {
        assert!(files(&corpus().join(target.name)).len() >= 3, "{} has few files", target.name);
    }
    Ok(())
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a corpus").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Number of damaged copies of each file.
const DAMAGES: u64 = 6;
