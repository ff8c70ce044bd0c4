//! Images in the format of the Open Container Initiative.

mod annotations;
mod archive;
mod artifact;
mod documents;
mod layer;

pub use annotations::Labels;
pub use archive::ImageArchive;
pub use artifact::Artifact;
pub use documents::Descriptor;
pub use layer::Compression;
