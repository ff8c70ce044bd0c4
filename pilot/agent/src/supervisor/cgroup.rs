//! Memory of the container's cgroup, version 1 or 2.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory of a cgroup, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Memory {
    /// Use without the inactive page cache, which the kernel reclaims first.
    pub(super) used: u64,
    /// Limit; `None` without one.
    pub(super) limit: Option<u64>,
}

impl Memory {
    /// Returns the memory of this process's cgroup, or `None` if it cannot be read.
    pub(super) fn read() -> Option<Self> {
        let (folder, version) = Version::find(Path::new(ROOT))?;
        Self::read_in(&folder, version)
    }

    fn read_in(folder: &Path, version: Version) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let used: u64 = read(version.used())?.trim().parse().ok()?;
        let inactive = read("memory.stat")
            .and_then(|stat| value_of(&stat, version.inactive()))
            .unwrap_or_default();
        // Version 1 has a huge number instead of "max".
        let limit = read(version.limit())?.trim().parse().ok().filter(|limit| *limit < 1 << 60);
        Some(Self { used: used.saturating_sub(inactive), limit })
    }

    /// True if a second Envoy fits: twice the use, and a margin.
    pub(super) fn allows_second_envoy(self) -> bool {
        let needed = self.used.saturating_mul(2).saturating_add(MARGIN);
        self.limit.is_none_or(|limit| needed < limit)
    }
}

/// Returns the number of processes that the kernel killed for lack of memory.
pub(super) fn out_of_memory_kills() -> Option<u64> {
    let (folder, version) = Version::find(Path::new(ROOT))?;
    kills_in(&folder, version)
}

fn kills_in(folder: &Path, version: Version) -> Option<u64> {
    let events = fs::read_to_string(folder.join(version.events())).ok()?;
    value_of(&events, "oom_kill")
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// Returns the folder of this process's memory cgroup.
    fn find(root: &Path) -> Option<(PathBuf, Self)> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        candidates(&own, root).into_iter().find(|(folder, version)| {
            folder.join(version.used()).exists() && folder.join(version.limit()).exists()
        })
    }

    fn used(self) -> &'static str {
        match self {
            Self::One => "memory.usage_in_bytes",
            Self::Two => "memory.current",
        }
    }

    fn limit(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }

    fn inactive(self) -> &'static str {
        match self {
            Self::One => "total_inactive_file",
            Self::Two => "inactive_file",
        }
    }

    fn events(self) -> &'static str {
        match self {
            Self::One => "memory.oom_control",
            Self::Two => "memory.events",
        }
    }
}

/// Returns possible folders by `/proc/self/cgroup`. In a container, its path is that of the node,
/// while its own cgroup is mounted at the root.
fn candidates(own: &str, root: &Path) -> Vec<(PathBuf, Version)> {
    let mut candidates = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (base, version) = if controllers.is_empty() {
            (root.to_owned(), Version::Two)
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (root.join("memory"), Version::One)
        } else {
            continue;
        };
        candidates.push((base.join(path.trim_start_matches('/')), version));
        candidates.push((base, version));
    }
    candidates
}

fn value_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok())
}

const ROOT: &str = "/sys/fs/cgroup";
/// Memory for the start of a process, and for variation.
const MARGIN: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_envoy_needs_twice_the_memory() {
        let memory = |used: u64, limit| Memory { used: used << 20, limit };
        assert!(memory(100, None).allows_second_envoy());
        assert!(memory(100, Some(217 << 20)).allows_second_envoy());
        assert!(!memory(100, Some(216 << 20)).allows_second_envoy());
    }

    #[test]
    fn cgroup_of_the_container_is_found() {
        let root = Path::new("/sys/fs/cgroup");
        let found = candidates("12:cpu,memory:/pod/x\n0::/pod/x\n", root);
        let found: Vec<_> = found.iter().map(|(path, _)| path.to_str().unwrap()).collect();
        let expected = [
            "/sys/fs/cgroup/memory/pod/x",
            "/sys/fs/cgroup/memory",
            "/sys/fs/cgroup/pod/x",
            "/sys/fs/cgroup",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn version_2_has_its_own_files_and_formats() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.current", "5000\n");
        write("memory.max", "max\n");
        write("memory.stat", "anon 3000\ninactive_anon 7\nactive_file 900\ninactive_file 1000\n");
        write("memory.events", "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 1\n");
        let read = || Memory::read_in(folder.path(), Version::Two);
        assert_eq!(read(), Some(Memory { used: 4000, limit: None }));
        assert_eq!(kills_in(folder.path(), Version::Two), Some(3));
        write("memory.max", "268435456\n");
        assert_eq!(read(), Some(Memory { used: 4000, limit: Some(256 << 20) }));
        assert_eq!(Memory::read_in(folder.path(), Version::One), None);
    }

    #[test]
    fn version_1_has_a_number_for_no_limit() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.usage_in_bytes", "5000\n");
        write("memory.limit_in_bytes", "9223372036854771712\n");
        let read = || Memory::read_in(folder.path(), Version::One);
        assert_eq!(read(), Some(Memory { used: 5000, limit: None }));
        write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
        assert_eq!(kills_in(folder.path(), Version::One), Some(2));
    }

    #[test]
    fn values_are_found_by_their_whole_key() {
        let events = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(value_of(events, "oom_kill"), Some(3));
        assert_eq!(value_of(events, "oom"), None);
    }
}
