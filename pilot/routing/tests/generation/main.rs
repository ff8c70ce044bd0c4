//! Generated configuration: tables of its rules, its inner consistency, and the verdict of the real
//! Envoy.

mod cases;
mod consistency;
mod loaded;
mod proxy;
mod server;
mod tables;
mod world;
