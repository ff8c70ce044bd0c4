//! Calls of the CNI plugin, and network configurations of a node.

use std::net::IpAddr;

use ::cni::capture_request::{CaptureRequest, NetworkFacts};
use ::cni::decision::{Decision, STATUS, decide};
use ::cni::network_config::NetworkConfig;
use ::cni::pod::PodIdentity;
use install_cni::install::conf_list::ConfList;
use istio_init::config::host_evidence::HostEvidence;
use istio_init::render::nft;
use serde_json::Value;

/// `CNI_ARGS` in the first line, and standard input.
pub fn call(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (args, input) = data.split_at(end);
    let pod = std::str::from_utf8(args).ok().and_then(PodIdentity::parse);
    let decision = NetworkConfig::parse(input).and_then(|config| {
        let decision = decide(&config, pod.as_ref())?;
        if let Decision::Capture(_) = decision {
            assert!(pod.is_some() && config.annotations.as_ref().unwrap().contains_key(STATUS));
        }
        Ok(decision)
    });
    match decision {
        Ok(Decision::Capture(request)) => capture(&request),
        Ok(_) => {}
        Err(error) => {
            let answer: Value = serde_json::from_str(&error.json("1.0.0")).unwrap();
            assert!(answer["code"].as_u64().unwrap() > 0 && answer["msg"] != "", "{answer}");
        }
    }
}

/// A request is the same after a round trip, and its rules hold no text of the pod.
fn capture(request: &CaptureRequest) {
    let text = serde_json::to_string(request).unwrap();
    if let Ok(again) = CaptureRequest::parse(&text) {
        assert_eq!(again, *request);
    }
    let facts = NetworkFacts {
        addresses: vec![IpAddr::from([10, 0, 0, 7])],
        name_servers: Some(vec![IpAddr::from([10, 0, 0, 10])]),
        host: Ok(HostEvidence::default()),
    };
    if let Ok(plan) = request.plan(&facts) {
        for line in plan.rules.iter().map(nft::add_rule) {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || " -./:!=\"*_@{},".contains(c);
            assert!(line.chars().all(is_plain), "{line:?}");
        }
    }
}

/// A file of the runtime's configuration folder.
pub fn conf_list(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let entry: Value = serde_json::from_str(ENTRY).unwrap();
    for file in ["a.conflist", "a.conf"] {
        let Ok(list) = ConfList::parse(file, text) else { continue };
        let without = list.without_entries(|_| true);
        let Ok(with) = list.with_entry(ENTRY) else { continue };
        let again = ConfList::parse("a.conflist", &with).unwrap();
        assert!(again.has_entry(&entry), "{with}");
        assert_eq!(again.with_entry(ENTRY).unwrap(), with);
        assert_eq!(again.without_entries(|_| true), without);
    }
}

const ENTRY: &str = r#"{"type":"istio-cni","capabilities":{"dns":true}}"#;
