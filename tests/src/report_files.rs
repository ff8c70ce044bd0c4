//! Files of public reports, in a folder beside the tree.

use std::env;
use std::path::PathBuf;

use anyhow::Result;

use crate::skipped_tests;

/// Returns the folder that `OUTRIGGER_REPORTS` names, or `None` if it names none, which leaves
/// `tests` out.
pub fn folder(tests: &str) -> Result<Option<PathBuf>> {
    match env::var_os(VARIABLE) {
        Some(folder) => Ok(Some(folder.into())),
        None => skipped_tests::record(tests, &format!("{VARIABLE} is not set")).map(|()| None),
    }
}

const VARIABLE: &str = "OUTRIGGER_REPORTS";
