//! Image layout as one archive, which containerd, Docker, Podman, skopeo and ORAS read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use serde::Serialize;
use tempfile::TempDir;

use super::annotations::{Labels, reference};
use super::artifact::Artifact;
use super::documents::{
    Annotations, CONFIG, Config, Descriptor, DockerManifest, INDEX, Index, MANIFEST, Manifest,
    RootFs, RunConfig,
};
use super::layer::{Compression, Layer};
use crate::content::Content;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::file_tree::FileTree;
use crate::image::{Image, ImageName};

/// An image of one or more platforms, on its way into an archive.
#[derive(Debug)]
pub struct ImageArchive {
    name: ImageName,
    labels: Labels,
    compression: Compression,
    blobs: BTreeMap<Digest, Content>,
    images: Vec<Descriptor>,
    artifacts: Vec<Descriptor>,
    docker: Vec<DockerManifest>,
    layers: TempDir,
}

impl ImageArchive {
    /// Returns an archive without images. Layers are kept in a temporary folder beside `output`.
    pub fn new(
        name: &ImageName,
        labels: Labels,
        compression: Compression,
        output: &Path,
    ) -> Result<Self> {
        let folder = output.parent().unwrap_or(output);
        Ok(Self {
            name: name.clone(),
            labels,
            compression,
            blobs: BTreeMap::new(),
            images: Vec::new(),
            artifacts: Vec::new(),
            docker: Vec::new(),
            layers: TempDir::new_in(folder).map_err(Error::write(folder))?,
        })
    }

    /// Writes an archive of an image of one platform, without labels and artifacts.
    pub fn write_plain(image: &Image, path: &Path) -> Result<()> {
        let mut archive = Self::new(&image.name, Labels::default(), Compression::None, path)?;
        archive.add(image)?;
        archive.write(path)
    }

    /// Adds the image of a platform, and returns the reference to its manifest.
    pub fn add(&mut self, image: &Image) -> Result<Descriptor> {
        let path = self.layers.path().join(image.platform.architecture());
        let layer = Layer::write(&image.files, self.compression, &path)?;
        let annotations = self.labels.annotations(&self.name);
        let config = Config {
            created: self.labels.created.clone(),
            architecture: image.platform.architecture(),
            os: "linux",
            run: RunConfig {
                user: image.user.to_string(),
                env: vec![ENVIRONMENT],
                entrypoint: image.entrypoint.clone(),
                labels: annotations.clone(),
            },
            rootfs: RootFs { kind: "layers", diff_ids: vec![format!("sha256:{}", layer.diff_id)] },
        };
        let config = self.add_document(CONFIG, &config);
        self.docker.push(DockerManifest {
            config: blob_path(config.sha256),
            repo_tags: vec![self.name.to_string()],
            layers: vec![blob_path(layer.descriptor.sha256)],
        });
        self.blobs.insert(layer.descriptor.sha256, layer.content);
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST,
            artifact_type: None,
            config,
            layers: vec![layer.descriptor],
            subject: None,
            annotations,
        };
        let descriptor = self.add_document(MANIFEST, &manifest);
        self.images.push(descriptor.clone().platform(image.platform));
        Ok(descriptor)
    }

    /// Attaches a document to the image with the manifest `subject`.
    pub fn attach(&mut self, subject: &Descriptor, artifact: Artifact) {
        let artifact_type = artifact.media_type;
        let (manifest, blobs) = artifact.manifest(subject.clone());
        self.blobs.extend(blobs);
        let descriptor = self.add_document(MANIFEST, &manifest);
        self.artifacts.push(descriptor.artifact_type(artifact_type));
    }

    /// Writes the archive.
    pub fn write(mut self, path: &Path) -> Result<()> {
        let index = Index {
            schema_version: 2,
            media_type: INDEX,
            manifests: std::mem::take(&mut self.images),
            annotations: self.labels.annotations(&self.name),
        };
        let named = self.add_document(INDEX, &index).annotations(reference(&self.name));
        let mut manifests = vec![named];
        manifests.append(&mut self.artifacts);
        let layout = Index {
            schema_version: 2,
            media_type: INDEX,
            manifests,
            annotations: Annotations::new(),
        };
        let mut files = FileTree::default();
        files.add("oci-layout", LAYOUT.to_owned());
        files.add("index.json", to_json(&layout));
        // Docker without a containerd store would load it for every platform.
        if let [manifest] = self.docker.as_slice() {
            files.add("manifest.json", to_json(&[manifest]));
        }
        for (digest, content) in &self.blobs {
            files.add(&blob_path(*digest), content.clone());
        }
        let file = File::create(path).map_err(Error::write(path))?;
        files.write_tar(0, BufWriter::new(file))
    }

    fn add_document(&mut self, media_type: &'static str, document: &impl Serialize) -> Descriptor {
        let text = to_json(document);
        let digest = Digest::from_bytes(text.as_bytes());
        let descriptor = Descriptor::new(media_type, digest, text.len() as u64);
        self.blobs.insert(digest, text.into());
        descriptor
    }
}

fn blob_path(digest: Digest) -> String {
    format!("blobs/sha256/{digest}")
}

#[expect(clippy::expect_used, reason = "the message states the invariant")]
fn to_json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("documents have text keys and no failing values")
}

const ENVIRONMENT: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
