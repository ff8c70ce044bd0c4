//! Packages of the release programs: images, archives, Debian packages, bill of materials and
//! provenance.
//!
//! Equal inputs give equal bytes: no times but that of the revision, no owners, sorted files.

mod command;
mod content;
pub mod debian;
mod digest;
pub mod elf;
mod error;
mod file_tree;
mod gzip;
mod image;
pub mod images;
pub mod oci;
mod origin;
mod platform;
pub mod programs;
mod provenance;
pub mod release;
mod release_notes;
pub mod sbom;

pub use content::Content;
pub use digest::Digest;
pub use error::{Error, Result};
pub use file_tree::FileTree;
pub use image::{Image, ImageName};
pub use origin::{Origin, Revision, SourceDate};
pub use platform::Platform;
pub use provenance::Provenance;
pub use release_notes::release_notes;
