//! `istioctl` as a user runs it, against the cluster of a test.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::shop::Shop;

impl Shop<'_> {
    /// `istioctl` as a user runs it; its exit code, output and messages.
    pub(crate) fn istioctl(&self, args: &[&str]) -> (Option<i32>, String, String) {
        self.istioctl_of(&self.fixture.namespace, args)
    }

    /// As [`Self::istioctl`], with another control plane's namespace.
    pub(crate) fn istioctl_of(
        &self,
        control_plane: &str,
        args: &[&str],
    ) -> (Option<i32>, String, String) {
        let kubeconfig = self.server.admin_kubeconfig();
        let flags = ["-c", kubeconfig.to_str().unwrap(), "--istioNamespace", control_plane];
        istioctl(&[&flags, args].concat(), "")
    }

    /// Messages without what is another in each run.
    pub(crate) fn shown(messages: &str, kubeconfig: &str) -> String {
        let url = regex::Regex::new("https://[^/ ]+/").unwrap();
        url.replace_all(&messages.replace(kubeconfig, "FILE"), "https://SERVER/").into_owned()
    }

    /// `istioctl kube-inject` for a text.
    pub(crate) fn kube_inject(&self, args: &[&str], input: &str) -> (Option<i32>, String, String) {
        let kubeconfig = self.server.admin_kubeconfig();
        let flags = ["-c", kubeconfig.to_str().unwrap(), "-i", &self.fixture.namespace];
        istioctl(&[&flags, &["kube-inject", "-f", "-"][..], args].concat(), input)
    }

    /// Runs `istioctl`, which must succeed without messages, and returns its output.
    pub(crate) fn output(&self, args: &[&str]) -> String {
        let (code, output, messages) = self.istioctl(args);
        assert_eq!((code, messages.as_str()), (Some(0), ""), "{args:?}");
        output
    }
}

/// Runs `istioctl`: its exit code, output and messages.
pub(crate) fn istioctl(args: &[&str], input: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_istioctl"))
        .args(args)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails before it reads has closed its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
