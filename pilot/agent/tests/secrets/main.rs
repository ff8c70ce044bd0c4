//! Workload certificates and SDS, with a certificate service of the test and the real Envoy.

#![expect(clippy::unwrap_used, reason = "a failing test may panic")]

mod envoy;
mod files;
mod fixture;
mod foreign_socket;
mod mounted;
mod outages;
mod output;
mod proxy;
mod roots;
mod sds_client;
mod service;
mod streams;
