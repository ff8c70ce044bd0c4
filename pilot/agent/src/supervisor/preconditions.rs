//! Preconditions of a hot restart.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Child;
use tokio::time::timeout;

use super::bootstrap_files;
use super::cgroup::Memory;
use super::error_output::reason;
use super::machine::Verdict;
use super::process::describe;

/// Facts that permit or forbid a hot restart.
#[derive(Clone, Debug, Default)]
pub(super) struct Preconditions {
    /// False with the setting, or without writable shared memory.
    pub(super) hot_restart: Option<&'static str>,
    pub(super) memory: Option<Memory>,
    /// Condition of the control plane, where the new bootstrap depends on it.
    pub(super) control_plane: Option<String>,
    /// Condition of the resources that the serving Envoy rejects.
    pub(super) rejected: Option<String>,
}

impl Preconditions {
    /// Returns the reason that forbids a hot restart.
    pub(super) fn missing(&self) -> Option<String> {
        if let Some(reason) = self.hot_restart {
            return Some(reason.to_owned());
        }
        if let Some(memory) = self.memory.filter(|memory| !memory.allows_second_envoy()) {
            return Some(format!(
                "a second Envoy needs more memory than the limit of {} MiB leaves, with {} MiB in \
                 use; raise the container's memory limit",
                memory.limit.unwrap_or_default() >> 20,
                memory.used >> 20,
            ));
        }
        if let Some(reason) = &self.control_plane {
            return Some(unreachable(reason));
        }
        let reason = self.rejected.as_ref()?;
        Some(format!("a new Envoy would lack them ({reason})"))
    }
}

/// Returns the precondition that an unreachable control plane violates.
pub(super) fn unreachable(reason: &str) -> String {
    format!("a new Envoy would wait for the control plane ({reason})")
}

/// Returns the result of a validation by Envoy (`--mode validate`), and removes its file.
///
/// A child closes the admin interface of its parent before it reads listeners and clusters. So
/// a bootstrap is validated first.
pub(super) async fn validate(mut child: Child, file: PathBuf) -> Verdict {
    let stderr = child.stderr.take();
    let output = async {
        let mut output = Vec::new();
        if let Some(stderr) = stderr {
            // Without output, the exit status remains.
            let _ = stderr.take(OUTPUT_LIMIT).read_to_end(&mut output).await;
        }
        let status = child.wait().await;
        (status, output)
    };
    let ended = timeout(TIMEOUT, output).await;
    bootstrap_files::remove(&file);
    let Ok((status, output)) = ended else {
        return Verdict::Rejected(format!("its validation took more than {} s", TIMEOUT.as_secs()));
    };
    match status {
        Ok(status) if status.success() => Verdict::Allowed,
        Ok(status) => {
            let reason = reason(&output).unwrap_or_else(|| describe(status));
            Verdict::Rejected(format!("Envoy rejects it: {reason}"))
        }
        Err(error) => Verdict::Rejected(format!("its validation failed: {error}")),
    }
}

const TIMEOUT: Duration = Duration::from_secs(30);
const OUTPUT_LIMIT: u64 = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_precondition_is_named() {
        assert_eq!(Preconditions::default().missing(), None);
        let disabled = Preconditions { hot_restart: Some("it is disabled"), ..Default::default() };
        assert_eq!(disabled.missing().unwrap(), "it is disabled");
        let memory = Some(Memory { used: 200 << 20, limit: Some(256 << 20) });
        let small = Preconditions { memory, ..Default::default() };
        let expected = "a second Envoy needs more memory than the limit of 256 MiB leaves, with 200 \
                        MiB in use; raise the container's memory limit";
        assert_eq!(small.missing().unwrap(), expected);
    }
}
