//! Changes to JSON values, and RFC 6902 patches.

pub mod change;
pub mod difference;
pub mod patch;
pub(crate) mod short;
