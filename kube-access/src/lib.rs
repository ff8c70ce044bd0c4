//! Access to a Kubernetes cluster: kubeconfigs, object names, causes of client errors, notes of
//! Events, and a budget of writes.

mod causes;
mod event_note;
pub mod kubeconfig;
pub mod names;
mod write_budget;

pub use causes::{is_unanswered, with_causes};
pub use event_note::event_note;
pub use write_budget::WriteBudget;

/// Filter of tracing for the client: it logs each error response, and each body that it cannot
/// decode. Our messages say more, and once.
pub const QUIET_CLIENT: &str = "kube_client::client=off,kube_client::client::tls=warn";
