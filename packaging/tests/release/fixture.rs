//! A release of small programs in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use packaging::release::{PlatformBuild, Release};
use packaging::{Origin, Platform, programs};

use crate::names_in;

pub(crate) const PLATFORMS: [Platform; 2] = Platform::ALL;
pub(crate) const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

pub(crate) struct Fixture {
    pub(crate) folder: PathBuf,
    pub(crate) output: PathBuf,
}

/// A release of both platforms.
pub(crate) static RELEASE: LazyLock<Fixture> = LazyLock::new(|| Fixture::write("both", &PLATFORMS));

impl Fixture {
    /// Writes a release into a folder of this name, which is replaced.
    pub(crate) fn write(name: &str, platforms: &[Platform]) -> Self {
        let fixture = Self::programs(name, platforms);
        release(&fixture.folder, platforms).write(fixture.output.clone()).unwrap();
        fixture
    }

    /// Writes the programs alone.
    pub(crate) fn programs(name: &str, platforms: &[Platform]) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("packaging-{name}"));
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        for platform in platforms {
            let programs = folder.join(platform.architecture());
            fs::create_dir_all(&programs).unwrap();
            for name in programs::all().map(|program| program.name).chain(["envoy"]) {
                fs::write(programs.join(name), program(*platform, name)).unwrap();
            }
        }
        fs::write(folder.join("certificates"), "certificates").unwrap();
        let output = folder.join("release");
        Self { folder, output }
    }

    /// Names of the files of the release.
    pub(crate) fn files(&self) -> Vec<String> {
        names_in(&self.output)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.output.join(name)).unwrap()
    }
}

pub(crate) fn release(folder: &Path, platforms: &[Platform]) -> Release {
    let builds = platforms.iter().map(|platform| {
        let programs = folder.join(platform.architecture());
        let envoy = Some(programs.join("envoy"));
        PlatformBuild { platform: *platform, programs, envoy }
    });
    Release {
        workspace: repository(),
        builds: builds.collect(),
        envoy_version: "1.40.0".to_owned(),
        origin: Origin {
            version: "0.1.0".to_owned(),
            revision: Some(REVISION.parse().unwrap()),
            source: Some("https://example.com/outrigger".to_owned()),
            date: Some("1764000000".parse().unwrap()),
            maintainer: "A <a@example.com>".to_owned(),
        },
        builder: "urn:outrigger:builder:test".to_owned(),
        invocation: None,
        repository: "localhost/outrigger".to_owned(),
        certificates: folder.join("certificates"),
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).parent().unwrap().to_owned()
}

/// Header of a static program, and its name.
fn program(platform: Platform, name: &str) -> Vec<u8> {
    let machine: u16 = match platform {
        Platform::Amd64 => 62,
        Platform::Arm64 => 183,
    };
    let mut header = vec![0; 64];
    // 64 bits, little endian, current version.
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    header[16] = 2;
    header[18..20].copy_from_slice(&machine.to_le_bytes());
    header[20] = 1;
    header[52] = 64;
    header.extend(name.bytes());
    header
}
