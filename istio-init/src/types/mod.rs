//! Parsed values: ports, address ranges, owners, marks, interfaces.

pub mod cidr;
pub mod direction;
pub mod family;
pub mod input_error;
pub mod interface;
pub mod iptables_variant;
pub mod mark;
pub mod owner;
pub mod port;
pub mod protocol;
pub mod routes;
