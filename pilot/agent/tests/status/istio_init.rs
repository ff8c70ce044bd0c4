//! The program `istio-init`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use e2e::netns::succeed;
use e2e::programs::Programs;

/// Returns the program: a release, or built by cargo, which does not do so for a test of another
/// package.
pub(crate) fn istio_init() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--package", "istio-init", "--bins", "--message-format=json"]);
        let messages = succeed(cargo.current_dir(env!("CARGO_MANIFEST_DIR")), "").unwrap();
        let executable = |line: &str| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            message["executable"].as_str().map(PathBuf::from)
        };
        messages.lines().find_map(executable).expect("cargo tells where the program is")
    };
    let release = || Programs::find().and_then(|programs| programs.own("istio-init")).ok();
    PROGRAM.get_or_init(|| release().unwrap_or_else(build)).clone()
}
