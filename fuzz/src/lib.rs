//! Invariants for any input: one fuzz target for each parser of input.
//!
//! A target panics if an input violates an invariant. `tests/corpus.rs` runs each target on the
//! files of `corpus/NAME` and on damaged copies; `make fuzz` searches for more with libFuzzer.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a fuzz target that panics has found something, as it should"
)]

pub mod admission;
pub mod annotations;
pub mod arguments;
pub mod certificates;
pub mod cni;
pub mod configuration;
pub mod dns;
pub mod http;
pub mod iptables;
pub mod manifests;
pub mod netlink;
pub mod objects;
pub mod plans;
pub mod pods;
pub mod resolver;
pub mod templates;
pub mod xds;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its folder in `corpus`.
    pub name: &'static str,
    /// Panics if the input violates an invariant.
    pub run: fn(&[u8]),
}

/// All fuzz targets.
pub const TARGETS: &[Target] = &[
    Target { name: "admission-review", run: admission::review },
    Target { name: "annotations", run: annotations::annotations },
    Target { name: "arguments", run: arguments::arguments },
    Target { name: "cni-call", run: cni::call },
    Target { name: "cni-configuration", run: cni::conf_list },
    Target { name: "dns", run: dns::messages },
    Target { name: "http", run: http::requests },
    Target { name: "inject-config", run: configuration::inject_config },
    Target { name: "iptables", run: iptables::listings },
    Target { name: "manifest", run: manifests::manifest },
    Target { name: "mesh-config", run: configuration::mesh_config },
    Target { name: "netlink", run: netlink::messages },
    Target { name: "objects", run: objects::objects },
    Target { name: "pem", run: certificates::pem },
    Target { name: "pod", run: pods::pod },
    Target { name: "resolv-conf", run: resolver::resolv_conf },
    Target { name: "secret", run: certificates::secret },
    Target { name: "template", run: templates::template },
    Target { name: "values", run: configuration::values },
    Target { name: "webhook-configuration", run: certificates::webhook_configuration },
    Target { name: "xds-frame", run: xds::frames },
    Target { name: "yaml", run: configuration::yaml },
];
