//! Node agent: installs the plugin, answers its questions, and repairs pods that started without it.

pub mod absent_args;
pub mod args;
pub mod attachment;
pub mod cli;
pub mod folder_watch;
pub mod install;
pub mod installer;
mod istio_annotations;
pub mod metrics;
pub mod metrics_server;
pub mod node_api;
pub mod node_pod;
pub mod node_pods;
pub mod question_server;
pub mod reconciler;
#[cfg(test)]
mod reference;
pub mod repair;
mod retry;
pub mod run;
pub mod runtime_version;
mod switch;
pub mod uninstall;
