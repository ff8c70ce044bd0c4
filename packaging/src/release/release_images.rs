//! Image layouts, with the bill of materials and the provenance of each image attached.

use std::path::Path;

use super::bills::Bills;
use super::folder::ReleaseFolder;
use super::{PlatformBuild, Release};
use crate::error::Result;
use crate::image::{Image, ImageName};
use crate::images::{ImageInputs, PROGRAM_IMAGES, PROXY};
use crate::oci::{Artifact, Compression, ImageArchive};
use crate::sbom::Bom;

pub(super) fn write(
    release: &Release,
    bills: &Bills,
    folder: &mut ReleaseFolder,
    left_out: &mut Vec<String>,
) -> Result<()> {
    for of in PROGRAM_IMAGES {
        let images = release.builds.iter().map(|build| {
            let image = release.inputs(build).program(of)?;
            Ok((image, bills.of_image(release, build.platform, of)))
        });
        release.write_image(of.name, images.collect::<Result<_>>()?, folder)?;
    }
    let mut proxies = Vec::new();
    for build in &release.builds {
        match &build.envoy {
            Some(envoy) => proxies.push((
                release.inputs(build).proxy(envoy)?,
                bills.of_proxy(release, build, envoy)?,
            )),
            None => {
                left_out.push(format!("{PROXY} for {}; there is no Envoy for it", build.platform));
            }
        }
    }
    if proxies.is_empty() { Ok(()) } else { release.write_image(PROXY, proxies, folder) }
}

impl Release {
    fn inputs<'a>(&'a self, build: &'a PlatformBuild) -> ImageInputs<'a> {
        ImageInputs {
            repository: &self.repository,
            tag: &self.origin.version,
            platform: build.platform,
            programs: &build.programs,
            certificates: &self.certificates,
        }
    }

    fn write_image(
        &self,
        title: &str,
        images: Vec<(Image, Bom)>,
        folder: &mut ReleaseFolder,
    ) -> Result<()> {
        let name = ImageName::new(&format!("{}/{title}", self.repository), &self.origin.version);
        let file_name = format!("{title}-{}.oci.tar", self.origin.version);
        folder.add_written(&file_name, |path| self.write_archive(&name, images, path))
    }

    fn write_archive(
        &self,
        name: &ImageName,
        images: Vec<(Image, Bom)>,
        path: &Path,
    ) -> Result<()> {
        let mut archive = ImageArchive::new(name, self.origin.labels(), Compression::Gzip, path)?;
        let provenance = self.provenance()?;
        for (image, bom) in images {
            let manifest = archive.add(&image)?;
            let bom = bom.to_json(self.timestamp().as_deref()).into_bytes();
            let subject = (name.title().to_owned(), manifest.sha256());
            let statement = provenance.statement(&[subject]).into_bytes();
            for (media_type, file, content) in [
                ("application/vnd.cyclonedx+json", "sbom.cdx.json", bom),
                ("application/vnd.in-toto+json", "provenance.json", statement),
            ] {
                let file_name = format!("{}-{file}", name.title());
                archive.attach(&manifest, Artifact { media_type, file_name, content });
            }
        }
        archive.write(path)
    }
}
