//! What `istio-init` does to packets: real sockets in network namespaces.

mod istio;
mod pod;
mod settings;

mod differential;
mod flags;
mod lifecycle;
mod scripts;
