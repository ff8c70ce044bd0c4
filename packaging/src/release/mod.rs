//! Everything that a release publishes, in one folder.

mod archives;
mod bills;
mod debian_packages;
mod documentation;
mod folder;
mod release_images;

use std::path::PathBuf;

use crate::elf::check_platform;
use crate::error::{Error, Result};
use crate::origin::Origin;
use crate::platform::Platform;
use crate::programs;
use crate::provenance::Provenance;
use crate::release_notes::release_notes;
use bills::Bills;
use documentation::Documentation;
use folder::ReleaseFolder;

/// Inputs of a release.
#[derive(Debug)]
pub struct Release {
    /// Root of the source code.
    pub workspace: PathBuf,
    /// Programs of each platform.
    pub builds: Vec<PlatformBuild>,
    /// Version of every Envoy.
    pub envoy_version: String,
    /// Version and source.
    pub origin: Origin,
    /// URI of the builder.
    pub builder: String,
    /// URI of the build's log, if there is one.
    pub invocation: Option<String>,
    /// Repository of the images, without their last part.
    pub repository: String,
    /// Root certificates for images.
    pub certificates: PathBuf,
}

/// Programs of a platform.
#[derive(Debug)]
pub struct PlatformBuild {
    /// The platform.
    pub platform: Platform,
    /// Folder of our programs.
    pub programs: PathBuf,
    /// Envoy; without it, there is no image of the proxy.
    pub envoy: Option<PathBuf>,
}

impl Release {
    /// Writes the release into an empty folder. Returns a line for each part that is left out.
    pub fn write(&self, output: PathBuf) -> Result<Vec<String>> {
        for build in &self.builds {
            for program in programs::all() {
                check_platform(&build.programs.join(program.name), build.platform)?;
            }
        }
        let mut left_out = Vec::new();
        let mut folder = ReleaseFolder::create(output)?;
        let documentation = Documentation::read(self, &mut left_out)?;
        let bills = Bills::read(self)?;
        bills.write(self, &mut folder)?;
        archives::write(self, &documentation, &mut folder, &mut left_out)?;
        debian_packages::write(self, &documentation, &mut folder)?;
        release_images::write(self, &bills, &mut folder, &mut left_out)?;
        self.write_notes(&mut folder, &mut left_out)?;
        let statement = self.provenance()?.statement(&folder.files());
        folder.add(&format!("{}.provenance.json", self.stem()), statement)?;
        folder.write_checksums()?;
        Ok(left_out)
    }

    /// Returns the beginning of file names.
    fn stem(&self) -> String {
        format!("outrigger-{}", self.origin.version)
    }

    fn write_notes(&self, folder: &mut ReleaseFolder, left_out: &mut Vec<String>) -> Result<()> {
        let path = self.workspace.join("CHANGELOG.md");
        let changelog = std::fs::read_to_string(&path).map_err(Error::read(&path))?;
        let version = &self.origin.version;
        match release_notes(&changelog, version) {
            Some(notes) => folder.add("release-notes.md", notes)?,
            None => left_out
                .push(format!("release-notes.md; CHANGELOG.md has no section `## [{version}]`")),
        }
        Ok(())
    }

    fn provenance(&self) -> Result<Provenance> {
        let mut materials = Vec::new();
        for name in ["Cargo.lock", "rust-toolchain.toml"] {
            let (digest, _) = crate::Content::File(self.workspace.join(name)).digest()?;
            materials.push((name.to_owned(), digest));
        }
        for build in &self.builds {
            if let Some(envoy) = &build.envoy {
                let (digest, _) = crate::Content::File(envoy.clone()).digest()?;
                materials
                    .push((format!("envoy {} {}", self.envoy_version, build.platform), digest));
            }
        }
        Ok(Provenance {
            builder: self.builder.clone(),
            invocation: self.invocation.clone(),
            version: self.origin.version.clone(),
            platforms: self.builds.iter().map(|build| build.platform.to_string()).collect(),
            source: self.origin.source.clone(),
            revision: self.origin.revision.as_ref().map(|one| one.as_str().to_owned()),
            materials,
        })
    }
}
