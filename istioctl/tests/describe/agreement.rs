//! Comparison of descriptions with `istio-init explain`.

use std::ffi::OsString;

use istio_init::args::Environment;
use istio_init::args::command::{Request, Subcommand};
use istio_init::config::{Config, PodEnvironment};
use istio_init::explain::{Owner, Packet, explain};
use istio_init::plan::plan;
use istio_init::render::explanation;
use istio_init::types::direction::Direction;
use serde_json::Value;

/// Asks `istio-init` the question of each packet, by the command that the description names.
/// Returns the number of packets.
pub(crate) fn agreed_packets(descriptions: &Value) -> usize {
    let mut compared = 0;
    for described in descriptions.as_array().unwrap() {
        let capture = &described["capture"];
        let environment: Environment =
            serde_json::from_value(capture["environment"].clone()).unwrap_or_default();
        for packet in capture["packets"].as_array().into_iter().flatten() {
            let words: Vec<OsString> = packet["command"]
                .as_array()
                .unwrap()
                .iter()
                .map(|word| word.as_str().unwrap().into())
                .collect();
            assert_eq!(explained(words, &environment), packet["explanation"], "{packet:#}");
            compared += 1;
        }
    }
    compared
}

/// Output of `istio-init explain -o json` in a pod with the typical addresses.
fn explained(words: Vec<OsString>, environment: &Environment) -> Value {
    let request = Request::parse(words, environment).unwrap();
    let Subcommand::Explain(query) = request.command else { panic!("not explain") };
    let pod = PodEnvironment {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        resolv_conf: Ok("nameserver 10.96.0.10\n".to_owned()),
        ..PodEnvironment::default()
    };
    let plan = plan(&Config::read(&request.args, &pod).unwrap().0);
    let packet = Packet {
        direction: query.direction,
        protocol: query.protocol,
        source: query.from.unwrap(),
        destination: query.to,
        interface: query.interface.unwrap(),
        owner: (query.direction == Direction::Out)
            .then_some(Owner { uid: query.uid, gid: query.gid }),
        mark: query.mark,
    };
    let text = explanation::object(&plan, &packet, &explain(&plan, &packet)).pretty();
    serde_json::from_str(&text).unwrap()
}
