//! Annotations `org.opencontainers.image.*`.

use super::documents::Annotations;
use crate::image::ImageName;

/// Origin of an image, as its annotations and labels.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// Time of the revision, as RFC 3339.
    pub created: Option<String>,
    /// Licence expression.
    pub licenses: Option<String>,
    /// Revision of the source code.
    pub revision: Option<String>,
    /// URL of the source code.
    pub source: Option<String>,
    /// Version of the packaged software.
    pub version: Option<String>,
}

impl Labels {
    /// Returns the annotations that are known.
    pub(super) fn annotations(&self, name: &ImageName) -> Annotations {
        let title = self.version.as_ref().map(|_| name.title().to_owned());
        let table = [
            ("org.opencontainers.image.created", &self.created),
            ("org.opencontainers.image.licenses", &self.licenses),
            ("org.opencontainers.image.revision", &self.revision),
            ("org.opencontainers.image.source", &self.source),
            ("org.opencontainers.image.title", &title),
            ("org.opencontainers.image.version", &self.version),
        ];
        let known = table.into_iter().filter_map(|(key, value)| Some((key, value.clone()?)));
        known.collect()
    }
}

/// Returns the annotations by which tools find an image in a layout.
pub(super) fn reference(name: &ImageName) -> Annotations {
    Annotations::from([
        // containerd and Docker take the full name, skopeo and ORAS the tag.
        ("io.containerd.image.name", name.to_string()),
        (REFERENCE, name.tag().to_owned()),
    ])
}

/// Annotation of a file's name in an artifact.
pub(super) const TITLE: &str = "org.opencontainers.image.title";
const REFERENCE: &str = "org.opencontainers.image.ref.name";
