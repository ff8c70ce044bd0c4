//! The file of a case, injected by `istioctl kube-inject`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use documents::yaml;
use serde_json::Value;

use crate::case::{Case, Overlays, compare, read};

impl Case {
    /// Runs `istioctl kube-inject` on the case's file; says how many documents were equal.
    pub(crate) fn run_file(&self, overlays: Overlays) -> Result<usize, String> {
        if !self.options.modes.iter().any(|mode| mode == "kube-inject") {
            return Ok(0);
        }
        let output = self.kube_inject(overlays, Path::new("input.yaml"));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if !self.options.expected_error.is_empty() {
            let expected = self.options.expected_error.to_lowercase();
            let as_expected = !output.status.success() && stderr.to_lowercase().contains(&expected);
            return if as_expected { Ok(1) } else { Err(format!("no error {expected}: {stderr}")) };
        }
        if !output.status.success() {
            return Err(stderr);
        }
        for warning in &self.options.warnings {
            if !stderr.contains(warning.trim_end()) {
                return Err(format!("no warning {warning:?}: {stderr}"));
            }
        }
        let ours = documents(&String::from_utf8_lossy(&output.stdout));
        let expected = documents(&read(&self.folder.join("expected.yaml")));
        if ours.len() != expected.len() {
            return Err(format!("{} documents, not {}", ours.len(), expected.len()));
        }
        let count = ours.len();
        for (number, (ours, expected)) in ours.into_iter().zip(expected).enumerate() {
            compare(&format!("document {number}"), ours, expected)?;
        }
        Ok(count)
    }

    /// Result of `istioctl kube-inject` for a file, by a path from the case's folder.
    pub(crate) fn kube_inject(&self, overlays: Overlays, file: &Path) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("inject_config.yaml");
        fs::write(&config, self.inject_config(overlays)).unwrap();
        Command::new(env!("CARGO_BIN_EXE_istioctl"))
            .current_dir(&self.folder)
            .args(["kube-inject", "--revision", &self.options.revision, "-f"])
            .arg(file)
            .arg("--injectConfigFile")
            .arg(config)
            .arg("--valuesFile")
            .arg(self.file("values.json"))
            .arg("--meshConfigFile")
            .arg(self.file("mesh.yaml"))
            .args(&self.options.flags)
            .env_clear()
            .envs(&self.options.env)
            .output()
            .unwrap()
    }
}

fn documents(text: &str) -> Vec<Value> {
    let texts = text.split("\n---").map(|text| text.trim_start_matches("---"));
    texts.map(|text| yaml::parse(text).unwrap()).filter(|value| !value.is_null()).collect()
}
