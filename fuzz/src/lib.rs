//! What must hold for any input at all, one function for each reader of input.
//!
//! A target panics when its input breaks a promise. `tests/corpus.rs` runs each over the files of
//! `corpus/NAME` and what is made of them; `make fuzz` has libFuzzer look for more.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a fuzz target that panics has found something, as it should"
)]

pub mod admission;
pub mod annotations;
pub mod arguments;
pub mod certificates;
pub mod configuration;
pub mod http;
pub mod iptables;
pub mod manifests;
pub mod netlink;
pub mod plans;
pub mod pods;
pub mod resolver;
pub mod templates;

/// A reader of input, and what holds for it.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its folder in `corpus`.
    pub name: &'static str,
    /// Panics if the input breaks a promise.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "admission-review", run: admission::review },
    Target { name: "annotations", run: annotations::annotations },
    Target { name: "arguments", run: arguments::arguments },
    Target { name: "http", run: http::requests },
    Target { name: "inject-config", run: configuration::inject_config },
    Target { name: "iptables", run: iptables::listings },
    Target { name: "manifest", run: manifests::manifest },
    Target { name: "mesh-config", run: configuration::mesh_config },
    Target { name: "netlink", run: netlink::messages },
    Target { name: "pem", run: certificates::pem },
    Target { name: "pod", run: pods::pod },
    Target { name: "resolv-conf", run: resolver::resolv_conf },
    Target { name: "secret", run: certificates::secret },
    Target { name: "template", run: templates::template },
    Target { name: "values", run: configuration::values },
    Target { name: "webhook-configuration", run: certificates::webhook_configuration },
    Target { name: "yaml", run: configuration::yaml },
];
