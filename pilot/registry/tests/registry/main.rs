//! Rules of the services model, stated in objects of Kubernetes; and directories of files.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panic")]

mod endpoints;
mod files;
mod fixture;
mod names;
mod services;
mod workloads;
