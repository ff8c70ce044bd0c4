//! Documents about an image, attached to its manifest.

use super::annotations::TITLE;
use super::documents::{Annotations, Descriptor, EMPTY, MANIFEST, Manifest};
use crate::content::Content;
use crate::digest::Digest;

/// A document about an image. Registries list it as a referrer of the image.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// Media type, which is the type of the artifact too.
    pub media_type: &'static str,
    /// Name of the file.
    pub file_name: String,
    /// The document.
    pub content: Vec<u8>,
}

impl Artifact {
    /// Returns the manifest with the image as its subject, and the blobs that it refers to.
    pub(super) fn manifest(self, subject: Descriptor) -> (Manifest, [(Digest, Content); 2]) {
        let digest = Digest::from_bytes(&self.content);
        let layer = Descriptor::new(self.media_type, digest, self.content.len() as u64)
            .annotations(Annotations::from([(TITLE, self.file_name)]));
        let empty = Digest::from_bytes(EMPTY_CONTENT);
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST,
            artifact_type: Some(self.media_type),
            config: Descriptor::new(EMPTY, empty, EMPTY_CONTENT.len() as u64),
            layers: vec![layer],
            subject: Some(subject),
            annotations: Annotations::new(),
        };
        let blobs = [
            (empty, Content::Bytes(EMPTY_CONTENT.to_vec())),
            (digest, Content::Bytes(self.content)),
        ];
        (manifest, blobs)
    }
}

const EMPTY_CONTENT: &[u8] = b"{}";
