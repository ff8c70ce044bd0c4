//! The xDS relay between a client, often Envoy itself, and a control plane of the test.

mod broken;
//mod envoy;
mod fixture;
mod flow;
mod own_types;
mod reconnect;
//mod resources;
mod socket;
