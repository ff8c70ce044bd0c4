//! Output of `plan` and `explain`: JSON by its schema, and text.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

use std::ffi::OsString;

use istio_init::args::Environment;
use istio_init::args::command::{NAMES, Output, Request, Subcommand, grammar};
use istio_init::config::{Config, PodEnvironment};
use istio_init::explain::{Fate, Owner, Packet, explain};
use istio_init::plan::{Plan, plan};
use istio_init::render::chain_names::ChainNames;
use istio_init::render::{explanation, json, table};
use istio_init::types::direction::Direction;
use istio_init::types::protocol::Protocol;
use reference_pages::schema::validate;
use serde_json::Value;

#[test]
fn plans_match_the_published_schema() {
    let schema: Value =
        serde_json::from_str(include_str!("../../docs/plan.schema.json")).expect("a schema");
    for flags in SETS {
        let text = json::plan(&planned(flags)).pretty();
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(validate(&value, &schema), Ok(()), "{flags}");
    }
    let broken = serde_json::json!({"version": 1, "rules": [{}], "passthroughAddress": true});
    assert!(validate(&broken, &schema).is_err(), "a form that takes everything proves nothing");
}

#[test]
fn explanations_match_the_published_schema() {
    let schema = include_str!("../../docs/schemas/istio-init-explain.schema.json");
    let schema: Value = serde_json::from_str(schema).expect("a schema");
    let plan = planned("-i * -x 10.96.0.0/12 -b * -d 15090,15021");
    for (direction, to, is_decided) in [
        (Direction::Out, "10.96.0.1:443", true),
        (Direction::Out, "10.1.2.3:80", true),
        (Direction::In, "10.0.0.5:80", true),
        (Direction::In, "[2001:db8::1]:80", false),
    ] {
        let is_out = direction == Direction::Out;
        let owner = Owner { uid: "1000".parse().unwrap(), gid: "1000".parse().unwrap() };
        let packet = Packet {
            direction,
            protocol: Protocol::Tcp,
            source: if to.starts_with('[') { "[2001:db8::2]:40000" } else { "10.0.0.5:40000" }
                .parse()
                .unwrap(),
            destination: to.parse().unwrap(),
            interface: "eth0".to_owned(),
            owner: is_out.then_some(owner),
            mark: 0,
        };
        let text = explanation::object(&plan, &packet, &explain(&plan, &packet)).pretty();
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(validate(&value, &schema), Ok(()), "{to}");
        assert_eq!(value["decidedBy"].is_object(), is_decided, "{to}");
    }
}

#[test]
fn table_shows_rules_with_their_settings() {
    insta::assert_snapshot!(table::plan(
        &planned("-i * -x 10.96.0.0/12 -b * -d 15090,15021"),
        ChainNames::Nftables
    ));
}

#[test]
fn explanation_names_the_deciding_rule() {
    let plan = planned("-i * -x 10.96.0.0/12 -b * -d 15090,15021");
    let packet = |to: &str| Packet {
        direction: Direction::Out,
        protocol: Protocol::Tcp,
        source: "10.0.0.5:40000".parse().unwrap(),
        destination: to.parse().unwrap(),
        interface: "eth0".to_owned(),
        owner: Some(Owner { uid: "1000".parse().unwrap(), gid: "1000".parse().unwrap() }),
        mark: 0,
    };
    let answer = |to: &str| {
        let packet = packet(to);
        explanation::text(&plan, &packet, &explain(&plan, &packet), ChainNames::Nftables)
    };
    insta::assert_snapshot!(answer("10.96.0.1:443") + "\n" + &answer("10.1.2.3:80"));
    let inbound = Packet { direction: Direction::In, owner: None, ..packet("10.0.0.5:15090") };
    let way = explain(&plan, &inbound);
    insta::assert_snapshot!(explanation::text(&plan, &inbound, &way, ChainNames::Iptables));
}

#[test]
fn packets_of_virtual_interfaces_are_outbound() {
    for mode in ["REDIRECT", "TPROXY"] {
        let flags = "-b * -o 5432 -x 10.96.0.0/12 -q 443 -k docker0";
        for (outbound, to, expected) in [
            ("*", "10.1.1.1:80", Some("--kube-virt-interfaces")),
            ("*", "10.1.1.1:5432", None),
            ("*", "10.96.0.1:80", None),
            ("10.0.0.0/8", "10.1.1.1:80", Some("--kube-virt-interfaces")),
            ("10.0.0.0/8", "9.9.9.9:443", Some("--istio-outbound-ports")),
            ("10.0.0.0/8", "9.9.9.9:80", None),
        ] {
            let plan = planned(&format!("-i {outbound} {flags} -m {mode}"));
            let packet = Packet {
                direction: Direction::In,
                protocol: Protocol::Tcp,
                source: "172.17.0.2:4000".parse().unwrap(),
                destination: to.parse().unwrap(),
                interface: "docker0".to_owned(),
                owner: None,
                mark: 0,
            };
            let explanation = explain(&plan, &packet);
            let origin = explanation.decided_by.map(|index| plan.rules[index].origin.to_string());
            let captured = match explanation.fate {
                Fate::Captured(port) if port.get() == 15001 => origin,
                Fate::Direct => None,
                fate => panic!("{mode} {to}: {fate:?}"),
            };
            assert_eq!(captured.as_deref(), expected, "{mode} {outbound} {to}");
        }
    }
}

#[test]
fn short_output_flag_also_excludes_ports() {
    let request = |line: &str| {
        let words = line.split(' ').map(OsString::from);
        Request::parse(words, &Environment::new()).expect(line)
    };
    for line in ["plan -o json", "plan -ojson", "plan -o=json", "plan --output json"] {
        assert_eq!(request(&format!("istio-init {line}")).output, Output::Json, "{line}");
    }
    let both = request("istio-init istio-iptables plan -o 80,443 -o nft -i * --from-kernel");
    assert_eq!(
        (both.output, both.command, both.from_kernel),
        (Output::Nft, Subcommand::Plan, true)
    );
    let flag = istio_init::args::flags::Flag::LocalOutboundPortsExclude;
    assert_eq!(both.args.flag(flag).text, "80,443");
    assert_eq!(request("istio-init -o 80").command, Subcommand::Install);
}

#[test]
fn every_subcommand_is_in_the_help_and_parses() {
    let help = istio_init::args::command().render_help().to_string();
    for name in NAMES {
        grammar(name).debug_assert();
        assert!(help.contains(name), "{help}");
        assert!(!grammar(name).render_help().to_string().contains("Commands"));
    }
    assert!(help.find("explain") < help.find("--envoy-port"), "{help}");
    let words = ["istio-init", "explain"].map(OsString::from);
    let refusal = Request::parse(words, &Environment::new()).expect_err("no destination");
    assert!(refusal.to_string().contains("--to"), "{refusal}");
}

fn planned(flags: &str) -> Plan {
    let words = ["istio-init"].into_iter().chain(flags.split(' ')).map(OsString::from);
    let request = Request::parse(words, &Environment::new()).expect(flags);
    let addresses = vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
    let surroundings = PodEnvironment { addresses, ..PodEnvironment::default() };
    plan(&Config::read(&request.args, &surroundings).expect(flags).0)
}

const SETS: [&str; 5] = [
    "--dual-stack",
    "-i * -b * -d 15090,15021,15020 -x 10.96.0.0/12,fd00::/8 --dual-stack",
    "-i 10.0.0.0/8 -b 80,8000:9000 -o 25 -q 443 -c net1,tap+ -k tap0 -u 1337,1400 --drop-invalid",
    "-i * -b * -m TPROXY -d 15020 --redirect-dns --capture-all-dns --dual-stack",
    "-i * -b 80 -m TPROXY -u 1337 -g 2000",
];
