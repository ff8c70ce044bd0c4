//! The commands besides `proxy`.
