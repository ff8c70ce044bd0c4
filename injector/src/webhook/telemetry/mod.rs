//! Log, metrics and traces.

mod certificate_metrics;
pub mod log;
pub(in crate::webhook) mod metric_table;
pub mod metrics;
pub(crate) mod subject;
#[cfg_attr(not(feature = "opentelemetry"), path = "no_traces.rs")]
pub mod traces;
pub(crate) mod watch_state;
