//! Local files: bounded reads, safe replacement, sets that change together, and polling.

mod directory;
mod file_set;
mod follow;
mod regular_file;
mod replace;
#[cfg(test)]
#[path = "../../tests/src/skipped_tests.rs"]
#[allow(unfulfilled_lint_expectations, unreachable_pub, reason = "the end-to-end tests export it")]
mod skipped_tests;

pub use file_set::{FileSet, SetFile};
pub use follow::follow;
pub use regular_file::{read_file, read_file_up_to, read_text_file};
pub use replace::{
    NewContent, remove_if_present, replace_by_own, replace_file, replace_regular_file,
};
