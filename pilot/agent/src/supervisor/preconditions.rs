//! Preconditions of a hot restart.

use super::cgroup::Memory;

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
        let expected = "a second Envoy needs more memory than the limit of 256 MiB leaves, with \
                        200 MiB in use; raise the container's memory limit";
        assert_eq!(small.missing().unwrap(), expected);
    }
}
