//! Harness of the end-to-end tests.
//!
//! [`cluster::Cluster`] is a complete Kubernetes cluster on this machine, [`images`] has its
//! images; [`api_servers::ApiServers`] is the API alone. Errors are for the reader of a failed
//! test, so they are [`anyhow::Error`]s with their whole context.

mod api_client;
mod api_server;
pub mod api_servers;
mod bridge;
pub mod calls;
pub mod cluster;
mod containerd;
mod control_plane;
mod dns;
pub mod envoy;
mod etcd;
pub mod failure;
pub mod fixture_pool;
pub mod helm;
pub mod http;
mod identity;
pub mod images;
pub mod istio_programs;
pub mod istiod;
mod kube_proxy;
pub mod kubectl;
mod kubelet;
mod kubelet_access;
pub mod manifests;
pub mod markdown;
pub mod mesh_authority;
pub mod namespace;
pub mod objects;
pub mod objects_by_path;
pub mod phases;
pub mod pod_processes;
pub mod port;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod random;
mod remains;
pub mod report_files;
pub mod run_folder;
pub mod shown_command;
pub mod signer;
pub mod skipped_tests;
mod tool;
pub mod tracer;
pub mod user_namespace;
pub mod wait;

pub mod conntrack;
pub mod netns;
pub mod sockets;
