//! Variants of iptables and their binaries, found without running them where possible.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::family::Family;
use super::input_error::ValueError;

/// Variant of iptables. Each programs a different part of the kernel and does not see the other's
/// rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The kernel's `ip_tables`.
    Legacy,
    /// The kernel's `nf_tables`, with iptables' table names.
    Nft,
}

/// Binaries of one variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IptablesBinaries {
    /// Variant of the binaries.
    pub variant: Variant,
    /// True if the user did not request them, so that nftables may replace them.
    pub allows_fallback: bool,
    /// True if they are named `iptables` without a variant.
    is_plain: bool,
}

impl Variant {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Nft];
}

impl IptablesBinaries {
    /// Finds the binaries of a variant for IPv4 in PATH.
    pub fn find(variant: Variant) -> Option<Self> {
        let named = Self { variant, allows_fallback: false, is_plain: false };
        let plain = Self { is_plain: true, ..named };
        let is_variant = || variant_of(&found(plain.restore_program(Family::V4))?);
        if named.has_family(Family::V4) {
            Some(named)
        } else if plain.has_family(Family::V4) && is_variant() == Some(variant) {
            Some(plain)
        } else {
            None
        }
    }

    /// Allows nftables to replace them, since the user did not request them.
    #[must_use]
    pub fn with_fallback(self) -> Self {
        Self { allows_fallback: true, ..self }
    }

    /// True if PATH has the binaries of the family.
    pub fn has_family(self, family: Family) -> bool {
        [self.list_program(family), self.restore_program(family)]
            .into_iter()
            .all(|name| found(name).is_some())
    }

    /// Returns the program that lists rules.
    pub fn list_program(self, family: Family) -> &'static str {
        match (self.is_plain, self.variant, family) {
            (true, _, Family::V4) => "iptables",
            (true, _, Family::V6) => "ip6tables",
            (false, Variant::Legacy, Family::V4) => "iptables-legacy",
            (false, Variant::Legacy, Family::V6) => "ip6tables-legacy",
            (false, Variant::Nft, Family::V4) => "iptables-nft",
            (false, Variant::Nft, Family::V6) => "ip6tables-nft",
        }
    }

    /// Returns the program that installs rules.
    pub fn restore_program(self, family: Family) -> &'static str {
        match (self.is_plain, self.variant, family) {
            (true, _, Family::V4) => "iptables-restore",
            (true, _, Family::V6) => "ip6tables-restore",
            (false, Variant::Legacy, Family::V4) => "iptables-legacy-restore",
            (false, Variant::Legacy, Family::V6) => "ip6tables-legacy-restore",
            (false, Variant::Nft, Family::V4) => "iptables-nft-restore",
            (false, Variant::Nft, Family::V6) => "ip6tables-nft-restore",
        }
    }
}

impl std::str::FromStr for Variant {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let all = Self::ALL;
        let known = all.into_iter().find(|variant| variant.to_string() == text);
        known.ok_or_else(|| {
            ValueError::new("is not a variant of iptables").hint("use legacy or nft")
        })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Nft => "nft",
        })
    }
}

/// Identifies the variant by the symbolic link's target. Otherwise runs the program: versions
/// before 1.8 print no variant and are legacy.
fn variant_of(program: &Path) -> Option<Variant> {
    let file = program.canonicalize().ok()?;
    match file.file_name()?.to_str()? {
        "xtables-nft-multi" => return Some(Variant::Nft),
        "xtables-legacy-multi" => return Some(Variant::Legacy),
        _ => {}
    }
    let output = Command::new(program).arg("--version").env("LC_ALL", "C").output().ok()?;
    if !output.status.success() {
        return None;
    }
    let is_nft = String::from_utf8_lossy(&output.stdout).contains("nf_tables");
    Some(if is_nft { Variant::Nft } else { Variant::Legacy })
}

fn found(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}
