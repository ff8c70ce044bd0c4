//! Capture of injected pods from the node: a chained CNI plugin.
//!
//! `call`, `network_config`, `pod`, `capture_request`, `decision`, `answer`, `node_hint` and
//! `json_object` are pure: a call of the runtime in, a decision or an answer out.
//! `network_namespace`, `capture`, `question` and `plugin` access the machine.

pub mod answer;
pub mod call;
pub mod capture;
pub mod capture_request;
pub mod decision;
pub mod json_object;
pub mod network_config;
pub mod network_namespace;
mod node_hint;
pub mod plugin;
pub mod pod;
pub mod question;
