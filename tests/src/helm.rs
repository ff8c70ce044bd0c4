//! Helm and the chart of `manifests/chart`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::programs::{Programs, repository};
use crate::tool;

/// Helm, by default in the namespace `istio-system`.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
    namespace: String,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Returns Helm without a cluster.
    pub fn new(programs: &Programs) -> Result<Self> {
        let namespace = "istio-system".to_owned();
        Ok(Self { program: programs.helm()?, namespace, kubeconfig: None })
    }

    /// Returns Helm in another namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self }
    }

    /// Returns Helm with the permissions of a kubeconfig.
    pub fn with_kubeconfig(programs: &Programs, kubeconfig: PathBuf) -> Result<Self> {
        Ok(Self { kubeconfig: Some(kubeconfig), ..Self::new(programs)? })
    }

    /// Renders the chart with values.
    pub fn template(&self, values: &Value) -> Result<String> {
        let args = ["template", "outrigger", &chart(), "--kube-version=1.35.0", "--values=-"];
        self.must(&args, &values.to_string())
    }

    /// Runs Helm with a standard input and returns its standard output. A failure is an error with
    /// the standard error.
    pub fn must(&self, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--namespace").arg(&self.namespace);
        if let Some(kubeconfig) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        let output = tool::output(&mut command, input)?;
        if !output.status.success() {
            bail!("helm {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Returns the folder of the chart.
pub fn chart() -> String {
    repository().join("manifests/chart").to_string_lossy().into_owned()
}
