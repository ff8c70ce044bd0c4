//! JSON documents of the image specification.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::digest::Digest;
use crate::platform::Platform;

pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const EMPTY: &str = "application/vnd.oci.empty.v1+json";

pub(super) type Annotations = BTreeMap<&'static str, String>;

/// Reference to a blob: media type, digest and size.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<PlatformDocument>,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    annotations: Annotations,
    #[serde(skip)]
    pub(super) sha256: Digest,
}

impl Descriptor {
    pub(super) fn new(media_type: &'static str, digest: Digest, size: u64) -> Self {
        Self {
            media_type,
            digest: format!("sha256:{digest}"),
            size,
            artifact_type: None,
            platform: None,
            annotations: Annotations::new(),
            sha256: digest,
        }
    }

    pub(super) fn platform(mut self, platform: Platform) -> Self {
        let architecture = platform.architecture();
        self.platform = Some(PlatformDocument { architecture, os: "linux" });
        self
    }

    pub(super) fn artifact_type(mut self, artifact_type: &'static str) -> Self {
        self.artifact_type = Some(artifact_type);
        self
    }

    pub(super) fn annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// Returns the digest of the blob.
    pub fn sha256(&self) -> Digest {
        self.sha256
    }
}

#[derive(Debug, Clone, Serialize)]
struct PlatformDocument {
    architecture: &'static str,
    os: &'static str,
}

/// Manifest of an image, or of an artifact with a subject.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u8,
    pub(super) media_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifact_type: Option<&'static str>,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subject: Option<Descriptor>,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    pub(super) annotations: Annotations,
}

/// Images of several platforms, or everything in a layout.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub(super) schema_version: u8,
    pub(super) media_type: &'static str,
    pub(super) manifests: Vec<Descriptor>,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    pub(super) annotations: Annotations,
}

/// Configuration of an image.
#[derive(Debug, Serialize)]
pub(super) struct Config {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<String>,
    pub(super) architecture: &'static str,
    pub(super) os: &'static str,
    #[serde(rename = "config")]
    pub(super) run: RunConfig,
    pub(super) rootfs: RootFs,
}

/// Settings of containers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct RunConfig {
    pub(super) user: String,
    pub(super) env: Vec<&'static str>,
    pub(super) entrypoint: Vec<String>,
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    pub(super) labels: Annotations,
}

#[derive(Debug, Serialize)]
pub(super) struct RootFs {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) diff_ids: Vec<String>,
}

/// Entry of `manifest.json`, which `docker load` reads where it has no containerd store.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DockerManifest {
    pub(super) config: String,
    pub(super) repo_tags: Vec<String>,
    pub(super) layers: Vec<String>,
}
