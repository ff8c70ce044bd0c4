//! The agent's own metrics.
