//! Repair of a pod's capture in a network namespace.

use std::process::Command;

use e2e::netns::Namespace;
use install_cni::attachment::Attachment;
use install_cni::node_pod::NodePod;
use install_cni::repair::{Capture, repair};
use serde_json::{Value, json};

/// Connections around the proxy may exist.
#[test]
fn rules_of_a_running_pod_are_not_changed() {
    let namespace = Namespace::create().unwrap();
    let eth0 = "link add eth0 type veth peer name peer\naddress add 192.168.77.2/24 dev eth0";
    namespace.ip(eth0).unwrap();
    let repaired = |status: &Value| {
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "u", "annotations": {
                "sidecar.istio.io/status": "{}",
                "sidecar.outrigger.io/capture": r#"{"args":["istio-iptables","-i","*","-b","*"]}"#}},
            "spec": {"containers": []},
            "status": status,
        });
        let pod = NodePod::read(&serde_json::from_value(pod).unwrap()).unwrap();
        let attachment = Attachment {
            pod: pod.identity.clone(),
            namespace: namespace.path(),
            addresses: vec!["192.168.77.2".parse().unwrap()],
            name_servers: None,
        };
        repair(&[attachment], &pod).unwrap()
    };
    let rules = || namespace.output(Command::new("nft").args(["list", "ruleset"]), "").unwrap();
    let running = json!({"containerStatuses": [{"name": "app", "image": "", "imageID": "",
        "ready": true, "restartCount": 0, "state": {"running": {}}}]});
    assert_eq!(repaired(&running), Capture::MissingWhileRunning);
    assert_eq!(rules(), "");
    assert_eq!(repaired(&json!({})), Capture::Repaired);
    assert_ne!(rules(), "");
    assert_eq!(repaired(&running), Capture::InForce);
}
