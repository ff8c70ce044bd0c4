//! Supervision of Envoy: epochs, hot restarts, drain, shutdown.
//!
//! [`machine`] decides and knows neither clock nor process.

pub mod machine;
