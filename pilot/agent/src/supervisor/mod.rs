//! Supervision of Envoy: epochs, hot restarts, drain, shutdown.
