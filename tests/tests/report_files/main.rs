//! Files of public reports, whose folder `OUTRIGGER_REPORTS` names, through the programs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod manifests;
mod scripts;
