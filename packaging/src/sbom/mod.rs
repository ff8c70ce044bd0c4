//! Bill of materials of programs and images, in CycloneDX.

mod component;
mod crates;
mod dependency_tree;
mod document;

pub use component::{Component, ComponentKind, PackageUrl};
pub use crates::Crates;
pub use document::Bom;
