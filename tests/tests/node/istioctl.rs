//! `istioctl kube-inject -f FILE`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::programs::{Programs, repository};

/// One call with an environment of its own.
#[derive(Debug)]
pub(crate) struct KubeInject {
    file: PathBuf,
    flags: Vec<(&'static str, PathBuf)>,
    environment: Vec<(String, String)>,
}

impl KubeInject {
    /// Returns a call for a file, with the built-in settings.
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, flags: Vec::new(), environment: Vec::new() }
    }

    /// Adds flags with files. Relative paths start at the root of the work tree.
    pub(crate) fn flags<P: Into<PathBuf>>(
        mut self,
        flags: impl IntoIterator<Item = (&'static str, P)>,
    ) -> Self {
        self.flags.extend(flags.into_iter().map(|(flag, file)| (flag, file.into())));
        self
    }

    /// Adds environment variables.
    pub(crate) fn environment(
        mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Returns the output; a failure is an error.
    pub(crate) fn run(&self) -> Result<String> {
        let mut istioctl = Command::new(Programs::find()?.own("istioctl")?);
        istioctl.current_dir(repository()).env_clear().envs(self.environment.iter().cloned());
        istioctl.args(["kube-inject", "-f"]).arg(&self.file);
        for (flag, file) in &self.flags {
            istioctl.arg(flag).arg(file);
        }
        let output = istioctl.output().context("starting istioctl")?;
        ensure!(output.status.success(), "istioctl: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).context("reading what istioctl wrote")
    }
}

/// The installation's settings as files.
pub(crate) const INSTALLATION: [(&str, &str); 3] = [
    ("--injectConfigFile", "manifests/base/inject_config.yaml"),
    ("--valuesFile", "manifests/base/values.yaml"),
    ("--meshConfigFile", "manifests/base/mesh.yaml"),
];
