//! DNS proxy: answers from the name table, and forwards the rest.
//!
//! [`table`], [`search`], [`message`] and [`answer`] are pure. [`forward`] and
//! [`server`] own the sockets.

pub mod answer;
pub mod forward;
pub mod frame;
pub mod message;
pub mod metrics;
pub mod search;
pub mod server;
pub mod table;

pub use metrics::Metrics;
pub use server::{BindError, Names, Server};
pub use table::{Entry, Table};
