//! Installation of the plugin and of its entry in the runtime's configuration.
//!
//! `conf_list`, `conf_dir`, `entry` and `plan` are pure: a folder's content in, steps out. `files`
//! reads the folder and carries the steps out.

pub mod conf_dir;
pub mod conf_list;
pub mod entry;
pub mod files;
pub mod naming;
pub mod plan;
