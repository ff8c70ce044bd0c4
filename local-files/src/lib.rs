//! Local files: safe replacement, sets that change together, and polling for changes.

mod directory;
mod file_set;
mod follow;
mod replace;
#[cfg(test)]
#[path = "../../tests/src/skipped_tests.rs"]
#[allow(unfulfilled_lint_expectations, unreachable_pub, reason = "the end-to-end tests export it")]
mod skipped_tests;

pub use file_set::{FileSet, SetFile};
pub use follow::follow;
pub use replace::replace_file;
