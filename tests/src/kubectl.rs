//! kubectl, used by the harness and the tests.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::programs::Programs;
use crate::tool;

/// kubectl with the permissions of one cluster's administrator.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

/// Result of a kubectl command.
#[derive(Debug, Clone)]
pub struct Answer {
    /// True if the exit code is 0.
    pub succeeded: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error: errors, and admission warnings.
    pub stderr: String,
}

impl Kubectl {
    pub(crate) fn new(programs: &Programs, kubeconfig: PathBuf) -> Result<Self> {
        Ok(Self::from_program(programs.kubernetes("kubectl")?, kubeconfig))
    }

    pub(crate) fn from_program(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self { program, kubeconfig }
    }

    /// Returns kubectl with the permissions of another kubeconfig.
    #[must_use]
    pub fn for_kubeconfig(&self, kubeconfig: PathBuf) -> Self {
        Self { program: self.program.clone(), kubeconfig }
    }

    /// Returns the kubeconfig, for other programs.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Runs kubectl; a failure is part of the answer.
    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<Answer> {
        self.run_with_input(args, "")
    }

    /// Runs kubectl with a standard input.
    pub fn run_with_input<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<Answer> {
        let mut command = Command::new(&self.program);
        // By default kubectl caches for hours the discovery of an earlier API server on this port.
        let cache = self.kubeconfig.with_extension("cache");
        command.arg("--cache-dir").arg(cache).arg("--kubeconfig").arg(&self.kubeconfig).args(args);
        let output = tool::output(&mut command, input)?;
        Ok(Answer {
            succeeded: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs kubectl and returns its standard output; a failure is an error.
    pub fn must<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<String> {
        self.must_with_input(args, "")
    }

    /// Runs kubectl as [`Kubectl::must`], with a standard input.
    pub fn must_with_input<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<String> {
        let args: Vec<A> = args.into_iter().collect();
        let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
        let said = words.join(" ");
        let answer = self.run_with_input(&args, input)?;
        if !answer.succeeded {
            bail!("kubectl {said}: {}", answer.stderr.trim());
        }
        Ok(answer.stdout)
    }
}
