//! Local files: safe replacement, sets that change together, and polling for changes.

mod directory;
mod file_set;
mod follow;
mod replace;

pub use file_set::{FileSet, SetFile};
pub use follow::follow;
pub use replace::replace_file;
