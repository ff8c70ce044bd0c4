//! A started Envoy, asked by its admin interface.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use e2e::port::free_port;
use e2e::programs::Programs;
use e2e::{http, wait};
use pilot_agent::bootstrap::{bootstrap, command_line};
use pilot_agent::config;
use pilot_agent::environment::Environment;
use pilot_agent::node::Node;
use serde_json::Value;

use crate::inputs::Case;

#[test]
fn started_envoy_has_the_generated_configuration() {
    let [admin, readiness, metrics] = [0; 3].map(|_| free_port().unwrap());
    let mut inputs = Case { addresses: &["127.0.0.1"], ..Case::DEFAULT }.inputs();
    let layer = format!(r#"{{"proxyAdminPort":{admin},"runtimeValues":{{"mine":"7"}}}}"#);
    let variables = [
        ("POD_NAME", "web".to_owned()),
        ("POD_NAMESPACE", "shop".to_owned()),
        ("INSTANCE_IP", "127.0.0.1".to_owned()),
        ("PROXY_CONFIG", layer),
        ("ENVOY_STATUS_PORT", readiness.to_string()),
        ("ENVOY_PROMETHEUS_PORT", metrics.to_string()),
    ];
    inputs.environment =
        Environment::new(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
    let config = config::resolve(&inputs).unwrap().config;
    let options = config.envoy.as_ref().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.json");
    fs::write(&file, bootstrap(&config, options, &Node::new(&config)).to_string()).unwrap();
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let child = Command::new(Programs::find().unwrap().envoy().unwrap())
        .arg("--config-path")
        .arg(&file)
        .args(command_line::arguments(&config, options))
        // Killed, it would leave its shared memory behind.
        .arg("--disable-hot-restart")
        .current_dir(folder.path())
        .stderr(log)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _envoy = Envoy(child);

    let get = |port: u16, path: &str| {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        http::get(server, path).and_then(http::Response::expect_ok)
    };
    let said = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let info = wait::until("Envoy's admin interface", || {
        get(admin, "/server_info").map_err(|error| format!("{error:#}\n{}", said()))
    });
    let info: Value = serde_json::from_str(&info.unwrap()).unwrap();
    // No control plane has answered yet.
    assert_eq!(info["state"], "PRE_INITIALIZING", "{info}");
    assert_eq!(info["command_line_options"]["drain_strategy"], "Immediate");
    assert_eq!(info["node"]["id"], "sidecar~127.0.0.1~web.shop~shop.svc.cluster.local");
    assert_eq!(info["node"]["metadata"]["NAMESPACE"], "shop");

    let dump: Value = serde_json::from_str(&get(admin, "/config_dump").unwrap()).unwrap();
    let sections = dump["configs"].as_array().unwrap();
    let bootstrap = sections.iter().find_map(|section| section.get("bootstrap")).unwrap();
    assert_eq!(bootstrap["dynamic_resources"]["ads_config"]["api_type"], "DELTA_GRPC");
    let clusters = get(admin, "/clusters").unwrap();
    for cluster in ["agent", "prometheus_stats", "sds-grpc", "xds-grpc"] {
        assert!(clusters.contains(&format!("{cluster}::")), "{clusters}");
    }
    let runtime: Value = serde_json::from_str(&get(admin, "/runtime").unwrap()).unwrap();
    assert_eq!(runtime["entries"]["mine"]["final_value"], "7");

    // The connection that fails has a tag, and a statistic outside the list is not kept.
    let statistics = wait::until("the relay's statistics", || {
        let text = get(admin, "/stats/prometheus").map_err(|error| error.to_string())?;
        let expected = "envoy_cluster_upstream_cx_connect_fail{cluster_name=\"xds-grpc\"}";
        if text.contains(expected) { Ok(text) } else { Err(text) }
    });
    let statistics = statistics.unwrap();
    assert!(!statistics.contains("sds-grpc"), "{statistics}");
}

/// A started Envoy, killed when the value is dropped.
struct Envoy(Child);

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
