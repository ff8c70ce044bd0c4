//! Debian packages of the machine that builds, whose libraries are linked or copied.

use std::fs;
use std::path::Path;

use crate::command::run;
use crate::platform::Platform;
use crate::sbom::{Component, ComponentKind, PackageUrl};

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPackage {
    distribution: String,
    name: String,
    version: String,
    architecture: String,
}

impl HostPackage {
    /// Returns the package of the C library that static programs are linked from, or `None` on a
    /// machine that is not Debian's.
    pub fn of_libc(platform: Platform) -> Option<Self> {
        if platform == Platform::host() {
            Self::installed("libc6-dev")
        } else {
            Self::installed(&format!("libc6-dev-{}-cross", platform.architecture()))
        }
    }

    /// Returns the package of root certificates.
    pub fn of_certificates() -> Option<Self> {
        Self::installed("ca-certificates")
    }

    /// Returns the package that owns a file.
    pub fn of_file(path: &Path) -> Option<Self> {
        let path = path.to_str()?;
        // Packages name a file in /lib or in /usr/lib, which are one folder.
        let other = path.strip_prefix("/usr").map_or_else(|| format!("/usr{path}"), str::to_owned);
        let owners = [path, &other].into_iter().find_map(|path| query("--search", &[path]))?;
        let (names, _) = owners.lines().next()?.split_once(": ")?;
        Self::installed(names.split(", ").next()?)
    }

    fn installed(name: &str) -> Option<Self> {
        let format = "--showformat=${Package} ${Version} ${Architecture}\n";
        let answer = query("--show", &[format, name])?;
        let release = fs::read_to_string("/etc/os-release").ok()?;
        let distribution = release.lines().find_map(|line| line.strip_prefix("ID="))?;
        let mut words = answer.lines().next()?.split(' ').map(str::to_owned);
        Some(Self {
            distribution: distribution.trim_matches('"').to_owned(),
            name: words.next()?,
            version: words.next()?,
            architecture: words.next()?,
        })
    }

    /// Returns the package as a component.
    pub fn component(&self, kind: ComponentKind) -> Component {
        Component::packaged(
            kind,
            &PackageUrl {
                kind: &format!("deb/{}", self.distribution),
                name: &self.name,
                version: &self.version,
                qualifiers: &format!("arch={}", self.architecture),
            },
        )
    }
}

fn query(action: &str, args: &[&str]) -> Option<String> {
    run("dpkg-query", &[&[action], args].concat(), Path::new("/")).ok()
}
