//! Effects of `istio-init` on packets: real sockets in network namespaces.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

mod dice;
mod istio;
mod places;
mod pod;
mod raw;
mod settings;

mod ask_explain;
mod ask_installed;
mod backends;

mod beyond;
mod differential;
mod flags;
mod hostile;
mod invalid;
mod iptables_lifecycle;
mod iptables_rules;
mod kills;
mod lifecycle;
mod lists;
mod lock;
mod meanwhile;
mod others;
mod processes;
mod sandbox;
mod scripts;
