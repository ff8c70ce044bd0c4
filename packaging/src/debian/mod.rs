//! Debian packages, and packages of the machine that builds.

mod host_package;
mod package;

pub use host_package::HostPackage;
pub use package::DebianPackage;
