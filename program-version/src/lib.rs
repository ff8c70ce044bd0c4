//! Version of the programs, and the commit that they are built from.
//!
//! A crate of its own without dependencies: the programs that run for every pod have it too.

use std::ffi::OsString;
use std::sync::LazyLock;

/// Version of the workspace.
pub const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// Commit that the program is built from, with `-dirty` after that of a changed work tree;
/// `unknown` if the build did not name one in `OUTRIGGER_COMMIT`.
pub const COMMIT: &str = match option_env!("OUTRIGGER_COMMIT") {
    Some(commit) if !commit.is_empty() => commit,
    _ => "unknown",
};

/// Number and commit, such as `0.1.0, commit 4f271dd9`.
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format!("{NUMBER}, commit {COMMIT}"));
    &TEXT
}

/// Name of the project, number and commit.
pub fn title() -> &'static str {
    static TITLE: LazyLock<String> = LazyLock::new(|| format!("Outrigger {}", text()));
    &TITLE
}

/// Returns a command line in which the word `version`, as in other programs, is the flag
/// `--version`.
pub fn as_flag(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = line.into_iter().collect();
    if let Some(word) = words.get_mut(1).filter(|word| *word == "version") {
        *word = "--version".into();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_version_and_commit() {
        assert_eq!(text(), format!("{NUMBER}, commit {COMMIT}"));
        assert!(!COMMIT.is_empty());
    }

    #[test]
    fn version_is_a_command_as_first_word_alone() {
        let words = |line: &str| as_flag(line.split(' ').map(OsString::from));
        assert_eq!(words("program version"), ["program", "--version"]);
        assert_eq!(words("program -x version"), ["program", "-x", "version"]);
    }
}
