//! Envoy in a network namespace, configured by the test's control plane.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::envoy::{self, Ads};
use e2e::http;
use e2e::netns::{Namespace, Owner};
use e2e::process::Process;
use e2e::programs::Programs;
use e2e::run_folder::RunFolder;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
use serde_json::{Value, json};

use crate::server::Server;
use crate::world::Resources;

/// A running Envoy. It ends with the value.
pub(crate) struct Proxy {
    process: Process,
    server: Server,
    namespace: std::rc::Rc<Namespace>,
    _folder: RunFolder,
}

impl Proxy {
    /// Starts Envoy in a namespace as this owner with these resources.
    pub(crate) fn start(
        namespace: std::rc::Rc<Namespace>,
        owner: Owner,
        resources: &Resources,
        secrets: &[Secret],
    ) -> Result<Self> {
        let folder = RunFolder::of_process()?;
        let socket = folder.folder("xds")?.join("socket");
        let server = Server::start(&socket, resources, secrets);
        let file = folder.write("envoy.json", bootstrap(&socket).to_string())?;
        let envoy = envoy::command(&file)?;
        let enter = ["netns", "exec", namespace.name()];
        let (uid, gid) = (format!("--reuid={}", owner.uid), format!("--regid={}", owner.gid));
        let user = ["setpriv", &uid, &gid, "--clear-groups"];
        let rights =
            ["--inh-caps=+net_admin,+dac_override", "--ambient-caps=+net_admin,+dac_override"];
        let words = enter.iter().chain(&user).chain(&rights).copied();
        let words = words.chain(envoy.iter().map(String::as_str));
        // Connections of a replaced listener end at once.
        let words = words.chain(["--drain-time-s", "1", "--drain-strategy", "immediate"]);
        let ip = Programs::find()?.system("ip")?;
        let process = Process::start(&folder, "envoy", &ip, words)?;
        Ok(Self { process, server, namespace, _folder: folder })
    }

    /// Changes the configuration, and waits until it is active and what it has replaced is gone.
    pub(crate) fn update(&mut self, resources: &Resources) -> Result<()> {
        self.server.update(resources)?;
        self.settle(resources)
    }

    /// Waits until Envoy is live and nothing is warming, and asserts that it took everything.
    pub(crate) fn settle(&mut self, resources: &Resources) -> Result<()> {
        let Self { process, server, namespace, .. } = self;
        let get = |path: &str| get(namespace, path);
        process.wait_until("the configuration is active", || {
            let rejected = server.rejections.lock().unwrap().clone();
            // An error would be waited for; a rejection is final.
            assert!(rejected.is_empty(), "{rejected:#?}");
            ensure!(get("/ready")? == "LIVE\n");
            let draining = get("/stats?filter=listener_manager.total_listeners_draining")?;
            ensure!(draining.trim_end().ends_with(": 0"), "{draining}");
            let init: Value = serde_json::from_str(&get("/init_dump")?)?;
            ensure!(init == json!({}), "{init}");
            let dump = dump(namespace)?;
            let sets = [
                ("dynamic_active_clusters", resources.clusters.len()),
                ("dynamic_listeners", resources.listeners.len()),
                ("dynamic_route_configs", resources.routes.len()),
                ("dynamic_warming_clusters", 0),
            ];
            for (set, expected) in sets {
                let count = entries(&dump, set).len();
                ensure!(count == expected, "{count} of {expected} {set}");
            }
            let endpoints = endpoints(&dump, resources).len();
            ensure!(endpoints == resources.endpoints.len(), "{endpoints} sets of endpoints");
            Ok(())
        })?;
        let stats = self.get("/stats?filter=update_rejected|update_failure|rds_resource.*error")?;
        for line in stats.lines() {
            let is_failure = line.contains("update_rejected") && !line.ends_with(": 0");
            ensure!(!is_failure, "{stats}");
        }
        let log = self.process.said()?;
        let complaints = log.lines().filter(|line| {
            let is_complaint = line.contains("[warning]") || line.contains("[error]");
            is_complaint && !ACCEPTED.iter().any(|accepted| line.contains(accepted))
        });
        let complaints: Vec<_> = complaints.collect();
        ensure!(complaints.is_empty(), "{complaints:#?}");
        Ok(())
    }

    /// Envoy's configuration without versions, times and secrets.
    pub(crate) fn golden(&self, resources: &Resources) -> Result<Value> {
        let dump = dump(&self.namespace)?;
        let sets = [
            ("clusters", "dynamic_active_clusters", "cluster"),
            ("listeners", "dynamic_listeners", "active_state"),
            ("routes", "dynamic_route_configs", "route_config"),
        ];
        let mut golden = json!({});
        for (name, set, field) in sets {
            let mut found: Vec<_> = entries(&dump, set)
                .into_iter()
                .map(|entry| match field {
                    "active_state" => entry["active_state"]["listener"].clone(),
                    _ => entry[field].clone(),
                })
                .collect();
            found.sort_by_key(|entry| entry["name"].as_str().map(str::to_owned));
            golden[name] = found.into();
        }
        golden["endpoints"] = endpoints(&dump, resources).into();
        Ok(golden)
    }

    /// Envoy's output so far.
    pub(crate) fn said(&self) -> Result<String> {
        self.process.said()
    }

    pub(crate) fn get(&self, path: &str) -> Result<String> {
        get(&self.namespace, path)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // A failure has been reported already.
        let _ = self.process.kill();
    }
}

fn get(namespace: &Namespace, path: &str) -> Result<String> {
    let admin = SocketAddr::from(([127, 0, 0, 1], ADMIN_PORT));
    namespace.run(|| http::get(admin, path))??.expect_ok().context(path.to_owned())
}

fn dump(namespace: &Namespace) -> Result<Value> {
    Ok(serde_json::from_str(&get(namespace, "/config_dump?include_eds")?)?)
}

fn entries(dump: &Value, name: &str) -> Vec<Value> {
    let sections = dump["configs"].as_array().into_iter().flatten();
    let found = sections.filter_map(|section| section.get(name)?.as_array());
    found.flatten().cloned().collect()
}

/// Generated sets of endpoints. The dump has those of other clusters as well.
fn endpoints(dump: &Value, resources: &Resources) -> Vec<Value> {
    let all = entries(dump, "dynamic_endpoint_configs");
    let all = all.into_iter().map(|entry| entry["endpoint_config"].clone());
    let is_generated = |entry: &Value| {
        entry["cluster_name"].as_str().is_some_and(|name| resources.endpoints.contains_key(name))
    };
    let mut found: Vec<_> = all.filter(is_generated).collect();
    found.sort_by_key(|entry| entry["cluster_name"].as_str().map(str::to_owned));
    found
}

fn bootstrap(socket: &Path) -> Value {
    let node = json!({"id": "sidecar~127.0.0.1~web-1.shop~cluster.local", "cluster": "web.shop"});
    let socket = envoy::pipe(socket.display());
    let mut bootstrap = envoy::ads_bootstrap(&node, &socket, Ads::Delta);
    if let Some(clusters) = bootstrap["static_resources"]["clusters"].as_array_mut() {
        clusters.push(envoy::http2_cluster("sds-grpc", &socket));
    }
    // Listeners of the agent's bootstrap, whose ports no generated listener may take.
    let own = [15021, 15090, 16021].map(|port: u16| {
        json!({
            "name": port.to_string(),
            "address": envoy::socket_address(SocketAddr::from(([0, 0, 0, 0], port))),
            "filter_chains": [{}],
        })
    });
    bootstrap["static_resources"]["listeners"] = json!(own);
    let admin = SocketAddr::from(([127, 0, 0, 1], ADMIN_PORT));
    bootstrap["layered_runtime"] = json!({"layers": [{
        "name": "static",
        "static_layer": {"envoy.reloadable_features.http_inspector_use_balsa_parser": false},
    }]});
    bootstrap["admin"] = json!({"address": envoy::socket_address(admin)});
    bootstrap
}

const ADMIN_PORT: u16 = 15000;

/// Warnings that the configuration has no part in.
const ACCEPTED: &[&str] = &[
    // The bootstrap of the test sets no limits.
    "Unable to use runtime singleton",
    "There is no configured limit to the number of allowed active downstream connections",
];
