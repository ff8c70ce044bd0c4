//! Privileges of this process, from `/proc/self/status` (see proc(5)).

use std::fs;

/// Privileges of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    effective: u64,
    bounding: u64,
    /// True if a seccomp filter is active.
    pub is_filtered: bool,
}

/// State of a capability of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapabilityState {
    /// Effective.
    Effective,
    /// Allowed for the container, but not effective for this user.
    Allowed,
    /// Not allowed for the container.
    Missing,
}

/// A capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// `CAP_NET_ADMIN`.
    NetAdmin,
    /// `CAP_NET_RAW`.
    NetRaw,
}

impl Privileges {
    /// Returns the privileges of this process; none if /proc is not readable.
    pub fn current() -> Self {
        fs::read_to_string("/proc/self/status").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Parses a status file.
    pub fn parse(status: &str) -> Self {
        let value = |key: &str| {
            let mut values = status.lines().filter_map(|line| line.strip_prefix(key));
            values.next().map(str::trim)
        };
        let set = |key| value(key).and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
        Self {
            effective: set("CapEff:"),
            bounding: set("CapBnd:"),
            is_filtered: value("Seccomp:") == Some("2"),
        }
    }

    /// Returns the state of the capability.
    pub fn holds(&self, capability: Capability) -> CapabilityState {
        let bit = 1
            << match capability {
                Capability::NetAdmin => 12,
                Capability::NetRaw => 13,
            };
        match (self.effective & bit != 0, self.bounding & bit != 0) {
            (true, _) => CapabilityState::Effective,
            (false, true) => CapabilityState::Allowed,
            (false, false) => CapabilityState::Missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_and_seccomp_filters_are_parsed() {
        let status = "Name:\tistio-init\nUid:\t1337\t1337\t1337\t1337\nCapEff:\t0000000000001000\n\
                      CapBnd:\t0000000000003000\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let privileges = Privileges::parse(status);
        assert_eq!(privileges.holds(Capability::NetAdmin), CapabilityState::Effective);
        assert_eq!(privileges.holds(Capability::NetRaw), CapabilityState::Allowed);
        assert!(privileges.is_filtered);
        for nothing in ["", "CapEff:", "CapEff:\tx\n", "Seccomp:\t0\n"] {
            assert_eq!(Privileges::parse(nothing), Privileges::default());
        }
    }
}
