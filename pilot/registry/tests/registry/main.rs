//! Rules of the services model, stated in objects of Kubernetes; and directories of files.

mod endpoints;
mod files;
mod fixture;
mod names;
mod services;
mod workloads;
