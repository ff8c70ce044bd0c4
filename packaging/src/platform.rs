//! Platforms that programs are built for.

use std::fmt;
use std::str::FromStr;

use goblin::elf::header::{EM_AARCH64, EM_X86_64};

/// Linux on a processor architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Platform {
    /// `linux/amd64`
    Amd64,
    /// `linux/arm64`
    Arm64,
}

impl Platform {
    /// Every platform.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Returns the platform of this program.
    pub const fn host() -> Self {
        if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::Amd64 }
    }

    /// Returns the name of the architecture, which OCI and Debian share.
    pub const fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the target of the Rust compiler.
    pub const fn rust_target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns Debian's name for folders of libraries.
    pub(crate) const fn multiarch(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// Returns the number of the architecture in the header of a program.
    pub(crate) const fn elf_machine(self) -> u16 {
        match self {
            Self::Amd64 => EM_X86_64,
            Self::Arm64 => EM_AARCH64,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture())
    }
}

impl FromStr for Platform {
    type Err = String;

    /// Parses `amd64` or `linux/amd64`.
    fn from_str(text: &str) -> Result<Self, String> {
        let architecture = text.strip_prefix("linux/").unwrap_or(text);
        let found = Self::ALL.into_iter().find(|one| one.architecture() == architecture);
        found.ok_or_else(|| format!("`{text}` is not a platform: expected amd64 or arm64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_parses_with_and_without_system() {
        assert_eq!("arm64".parse(), Ok(Platform::Arm64));
        assert_eq!("linux/amd64".parse(), Ok(Platform::Amd64));
        assert_eq!(
            "s390x".parse::<Platform>(),
            Err("`s390x` is not a platform: expected amd64 or arm64".to_owned())
        );
    }
}
