//! Capture by `istio-init`, tested with real sockets in network namespaces.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

mod endpoints;
mod istio;
mod pod;
mod raw;
mod settings;

mod backends;
mod cni_plugin;
mod differential;
mod drop_invalid;
mod early_foreign_rules;
mod explain;
mod flags;
mod foreign_rules;
mod forwarded_dns;
mod invalid_input;
mod iptables_lifecycle;
mod iptables_rules;
mod kills;
mod lifecycle;
mod lock;
mod long_lists;
mod node;
mod process_limits;
mod sandbox;
mod scripts;
mod tproxy_and_dns;
mod traffic_during_changes;
mod verify_and_probe;
