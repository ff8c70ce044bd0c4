//! The work tree itself: dependencies, licences, links of the documentation, the copy that CI uses.
//! They need no set-up, unlike the other tests of this crate: `make check` runs them.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod ci_copy;
mod dependencies;
mod licences;
mod links;
