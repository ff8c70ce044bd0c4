//! Decisions of the rotation: single ones, sequences, and an exploration of all states.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a failing test may panic, and prints what it explored"
)]

mod convergence;
mod decisions;
#[path = "../../src/rotation/fixtures.rs"]
mod fixtures;
mod interference;
mod model;
mod replica;
mod revocation;

// The fixtures are also a module of the library, and name its modules by `crate`.
use webhook_certs::{authority, bundle, options, rotation, server_names};
