//! xDS v3, shared by its clients and servers: messages of the envelope, codecs and gRPC services.
//!
//! Resources stay encoded: an [`messages::Any`] shares its bytes, and a relay passes whole frames
//! on as [`bytes::Bytes`].

pub mod client;
pub mod codec;
pub mod frame;
pub mod messages;
pub mod name_table;
pub mod request_stream;
mod response_body;
pub mod server;
pub mod service;
pub mod session;
pub mod streams;
pub mod type_urls;
