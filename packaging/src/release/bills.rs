//! Bills of materials of every program.

use std::collections::BTreeMap;
use std::path::Path;

use super::folder::ReleaseFolder;
use super::{PlatformBuild, Release};
use crate::command::run;
use crate::content::Content;
use crate::debian::HostPackage;
use crate::elf::shared_libraries;
use crate::error::{Error, Result};
use crate::images::{PROXY, PROXY_PROGRAMS, ProgramImage};
use crate::origin::{LICENSE, SourceDate};
use crate::platform::Platform;
use crate::programs::BUILDS;
use crate::sbom::{Bom, Component, ComponentKind, Crates, PackageUrl};

/// Bills by platform and program.
pub(super) struct Bills(BTreeMap<(Platform, &'static str), Bom>);

impl Bills {
    pub(super) fn read(release: &Release) -> Result<Self> {
        let standard_library = standard_library(&release.workspace)?;
        let mut bills = BTreeMap::new();
        for build in &release.builds {
            let platform = build.platform;
            let libc = HostPackage::of_libc(platform);
            let libc = libc.map(|package| package.component(ComponentKind::Library));
            for programs in BUILDS {
                let packages: Vec<_> = programs.iter().map(|program| program.package).collect();
                let crates = Crates::read(&release.workspace, &packages, platform)?;
                for program in programs {
                    let path = build.programs.join(program.name);
                    let component = release.component(ComponentKind::Application, program.name);
                    let component = component.sha256(Content::File(path).digest()?.0);
                    let mut bom = Bom::new(component.clone());
                    crates.add_to(&mut bom, &component, program.package)?;
                    bom.add(&standard_library);
                    if let Some(libc) = &libc {
                        bom.add(libc);
                    }
                    bills.insert((platform, program.name), bom);
                }
            }
        }
        Ok(Self(bills))
    }

    /// Writes a file for each program.
    pub(super) fn write(&self, release: &Release, folder: &mut ReleaseFolder) -> Result<()> {
        for ((platform, program), bom) in &self.0 {
            let (version, architecture) = (&release.origin.version, platform.architecture());
            let name = format!("{program}-{version}-linux-{architecture}.cdx.json");
            folder.add(&name, bom.to_json(release.timestamp().as_deref()))?;
        }
        Ok(())
    }

    /// Returns the bill of an image without Envoy.
    pub(super) fn of_image(
        &self,
        release: &Release,
        platform: Platform,
        image: ProgramImage,
    ) -> Bom {
        let mut bom = Bom::new(release.component(ComponentKind::Container, image.name));
        for program in image.programs() {
            bom.include(self.of_program(platform, program));
        }
        if image.name == "istioctl" {
            add_certificates(&mut bom);
        }
        bom
    }

    /// Returns the bill of the image with Envoy.
    pub(super) fn of_proxy(
        &self,
        release: &Release,
        build: &PlatformBuild,
        envoy: &Path,
    ) -> Result<Bom> {
        let mut bom = Bom::new(release.component(ComponentKind::Container, PROXY));
        for program in PROXY_PROGRAMS {
            bom.include(self.of_program(build.platform, program));
        }
        let url = PackageUrl {
            kind: "generic",
            name: "envoy",
            version: &release.envoy_version,
            qualifiers: "",
        };
        let component = Component::packaged(ComponentKind::Application, &url)
            .cpe("envoyproxy", "envoy")
            .license("Apache-2.0")
            .sha256(Content::File(envoy.to_owned()).digest()?.0);
        bom.add(&component);
        for (name, library) in shared_libraries(envoy, build.platform)? {
            let library = match HostPackage::of_file(&library) {
                Some(package) => package.component(ComponentKind::Library),
                None => Component::own(ComponentKind::Library, &name, "unknown")
                    .sha256(Content::File(library).digest()?.0),
            };
            bom.add_dependency(&component, &library);
        }
        add_certificates(&mut bom);
        Ok(bom)
    }

    #[expect(clippy::expect_used, reason = "the message states the invariant")]
    fn of_program(&self, platform: Platform, program: &str) -> &Bom {
        let bills = self.0.iter();
        let mut found = bills.filter(|((one, name), _)| (*one, *name) == (platform, program));
        found.next().expect("every program of an image is a program of a build").1
    }
}

impl Release {
    fn component(&self, kind: ComponentKind, name: &str) -> Component {
        Component::own(kind, name, &self.origin.version).license(LICENSE)
    }

    /// Returns the time of bills.
    pub(super) fn timestamp(&self) -> Option<String> {
        self.origin.date.map(SourceDate::rfc3339)
    }
}

/// Returns the standard library of the workspace's compiler.
fn standard_library(workspace: &Path) -> Result<Component> {
    let answer = run("rustc", &["-vV"], workspace)?;
    let version = answer.lines().find_map(|line| line.strip_prefix("release: "));
    let version = version.ok_or_else(|| Error::Output {
        command: "rustc -vV".to_owned(),
        problem: "it has no line `release: `".to_owned(),
    })?;
    let url = PackageUrl { kind: "generic", name: "rust-std", version, qualifiers: "" };
    let component = Component::packaged(ComponentKind::Library, &url);
    Ok(component.cpe("rust-lang", "rust").license("MIT OR Apache-2.0"))
}

/// Adds the root certificates of Debian's package.
fn add_certificates(bom: &mut Bom) {
    if let Some(package) = HostPackage::of_certificates() {
        bom.add(&package.component(ComponentKind::Data));
    }
}
