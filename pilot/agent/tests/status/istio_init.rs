//! The program `istio-init`.

use std::path::PathBuf;

use e2e::programs::Programs;

/// Returns the program. Cargo does not build it for a test of another package: `make test-programs`
/// does.
pub(crate) fn istio_init() -> PathBuf {
    Programs::find().and_then(|programs| programs.own("istio-init")).unwrap()
}
