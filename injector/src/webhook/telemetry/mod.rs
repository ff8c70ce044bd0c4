//! Log and metrics.

mod certificate_metrics;
pub mod log;
pub(in crate::webhook) mod metric_table;
pub mod metrics;
pub(crate) mod subject;
pub(crate) mod watch_state;
