//! Envoys that the test configures itself, without an agent.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::http;
use crate::port::free_port;
use crate::process::Process;
use crate::programs::Programs;
use crate::run_folder::RunFolder;

/// A running Envoy. It ends with the value.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    admin: SocketAddr,
}

impl Envoy {
    /// Starts Envoy with a bootstrap, to which an admin interface on a free port is added. The
    /// bootstrap is `NAME.json` of the run, the log `NAME.log`.
    pub fn start(folder: &RunFolder, name: &str, mut bootstrap: Value) -> Result<Self> {
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        bootstrap["admin"] = json!({ "address": socket_address(admin) });
        let file = folder.write(&format!("{name}.json"), bootstrap.to_string())?;
        let words = command(&file)?;
        let (program, arguments) = words.split_first().context("a program")?;
        let process = Process::start(folder, name, Path::new(program), arguments)?;
        Ok(Self { process, admin })
    }

    /// Waits for a condition; fails at once if Envoy ends before.
    pub fn wait_until<T>(&mut self, what: &str, probe: impl FnMut() -> Result<T>) -> Result<T> {
        self.process.wait_until(what, probe)
    }

    /// Returns the address of the admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Gets a page of the admin interface.
    pub fn get(&self, path: &str) -> Result<String> {
        http::get(self.admin, path)?.expect_ok()
    }

    /// True if Envoy is still running.
    pub fn runs(&mut self) -> bool {
        self.process.runs()
    }
}

/// Returns the command line of an Envoy with one worker, beside others on the same machine.
pub fn command(bootstrap: &Path) -> Result<[String; 8]> {
    let program = Programs::find()?.envoy()?.display().to_string();
    let file = bootstrap.display().to_string();
    let [config, concurrency, level] = ["-c", "--concurrency", "-l"].map(str::to_owned);
    let alone = "--disable-hot-restart".to_owned();
    Ok([program, config, file, alone, concurrency, "1".to_owned(), level, "warning".to_owned()])
}

/// Variant of the protocol that Envoy speaks with its control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ads {
    /// Delta.
    Delta,
    /// State of the world.
    StateOfTheWorld,
}

/// Returns the bootstrap of a node with all resources from a control plane, by plaintext.
pub fn ads_bootstrap(node: &Value, control_plane: &Value, ads: Ads) -> Value {
    let api_type = match ads {
        Ads::Delta => "DELTA_GRPC",
        Ads::StateOfTheWorld => "GRPC",
    };
    let source = json!({"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"});
    json!({
        "node": node,
        "dynamic_resources": {
            "ads_config": {
                "api_type": api_type,
                "transport_api_version": "V3",
                "set_node_on_first_message_only": true,
                "grpc_services": [{"envoy_grpc": {"cluster_name": CONTROL_PLANE}}],
            },
            "cds_config": source,
            "lds_config": source,
        },
        "static_resources": {"clusters": [http2_cluster(CONTROL_PLANE, control_plane)]},
    })
}

/// Returns a static cluster with one endpoint that speaks HTTP/2.
pub fn http2_cluster(name: &str, address: &Value) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        },
        "load_assignment": assignment(name, address),
    })
}

/// Returns the assignment of one endpoint to a cluster.
pub fn assignment(cluster: &str, address: &Value) -> Value {
    json!({
        "cluster_name": cluster,
        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
    })
}

/// Returns the address of a TCP socket as Envoy's configuration has it.
pub fn socket_address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip(), "port_value": address.port()}})
}

/// Returns the address of a Unix socket as Envoy's configuration has it.
pub fn pipe(path: impl Display) -> Value {
    json!({"pipe": {"path": path.to_string()}})
}

/// Cluster of the control plane in [`ads_bootstrap`].
pub const CONTROL_PLANE: &str = "xds-grpc";
