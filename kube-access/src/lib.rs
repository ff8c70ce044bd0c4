//! Access to a Kubernetes cluster: kubeconfigs, object names, causes of client errors, notes of
//! Events, the log of a client's program, and a budget of writes.

mod causes;
mod event_note;
pub mod kubeconfig;
mod log_filter;
pub mod names;
mod write_budget;

pub use causes::{is_unanswered, with_causes};
pub use event_note::event_note;
pub use log_filter::{LogFilter, LogFilterError};
pub use write_budget::WriteBudget;
