//! Pages of `docs/` that are written from tables of the code, and the check that they are current.
//!
//! Tests alone use this crate, so no program carries its pages.

mod flags;
mod manual;
mod page;
pub mod schema;

pub use manual::check_manual;
pub use page::{Page, code};

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Compares a page below `docs/` with its generated text, and panics if they differ. With the
/// environment variable `OUTRIGGER_REFERENCE=write`, as in `make reference`, writes the page
/// instead.
///
/// # Panics
///
/// Panics if the page is not current, or cannot be written.
pub fn check(page: &str, expected: &str) {
    let path = repository().join("docs").join(page);
    let current = fs::read_to_string(&path).unwrap_or_default();
    if current == expected {
        return;
    }
    if std::env::var_os("OUTRIGGER_REFERENCE").is_some_and(|value| value == "write") {
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, expected))
            .unwrap_or_else(|error| panic!("docs/{page} cannot be written: {error}"));
        return;
    }
    panic!("docs/{page} is not current: {}\nhint: make reference", difference(&current, expected));
}

/// Returns the texts of the files in a folder below `docs/`, by their names.
///
/// # Panics
///
/// Panics if a file cannot be read.
pub fn files(folder: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(repository().join("docs").join(folder)).into_iter().flatten();
    let file = |entry: fs::DirEntry| {
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        let text = fs::read_to_string(&path);
        (name, text.unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display())))
    };
    entries.flatten().map(file).collect()
}

/// Returns the root of the work tree of the running test. Cargo names its package at run time; what
/// is compiled in may name another work tree with the same target directory.
fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").exists());
    root.unwrap_or(&package).to_owned()
}

/// Returns the first line that differs.
fn difference(current: &str, expected: &str) -> String {
    let mut lines = current.lines().zip(expected.lines()).enumerate();
    match lines.find(|(_, (current, expected))| current != expected) {
        Some((index, (current, expected))) => {
            format!("line {}\n- {current}\n+ {expected}", index + 1)
        }
        None => "the numbers of lines differ".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn first_changed_line_is_named() {
        assert_eq!(difference("a\nb\nc", "a\nx\ny"), "line 2\n- b\n+ x");
        assert_eq!(difference("a", "a\nb"), "the numbers of lines differ");
    }
}
