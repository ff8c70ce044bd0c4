//! The commands besides `proxy`.

pub mod request;
pub mod version;
pub mod wait;
