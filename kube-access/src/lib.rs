//! Access to a Kubernetes cluster: kubeconfigs, object names, and causes of client errors.

mod causes;
pub mod kubeconfig;
pub mod names;

pub use causes::with_causes;
