//! Sessions against tables and against a model of Envoy.

mod client;
mod limits;
mod properties;
mod protocol;
mod state;
