//! Pictures of plans: goldens, and agreement with explanations.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics has failed, as it should"
)]

use std::net::{IpAddr, SocketAddr};

use istio_init::args::flags::Flag;
use istio_init::explain::{Fate, Owner, Packet, explain};
use istio_init::picture::{LanePath, picture};
use istio_init::plan::{Origin, Plan};
use istio_init::render::{capture_svg, mermaid};
use istio_init::types::cidr::Cidr;
use istio_init::types::direction::Direction;
use istio_init::types::port::PortRange;
use istio_init::types::protocol::Protocol;

use crate::case::planned;

mod case;

#[test]
fn mermaid_of_every_case() {
    insta::glob!("../testdata/plans", "*.case", |file| {
        insta::assert_snapshot!(mermaid::capture(&picture(&planned(file))));
    });
}

#[test]
fn svg_of_some_cases() {
    insta::glob!("../testdata/plans", "{injected,every-flag,tproxy,no-flags}.case", |file| {
        insta::assert_snapshot!(capture_svg::svg(&picture(&planned(file))));
    });
}

#[test]
fn svg_of_every_case_is_well_formed() {
    insta::glob!("../testdata/plans", "*.case", |file| {
        let text = capture_svg::svg(&picture(&planned(file)));
        let document = roxmltree::Document::parse(&text).expect("XML");
        let root = document.root_element();
        let names: Vec<_> = root
            .children()
            .filter(roxmltree::Node::is_element)
            .map(|it| it.tag_name().name())
            .collect();
        assert_eq!(names[..3], ["title", "desc", "style"]);
    });
}

/// Packets that the test makes itself from the values of a lane take its path.
#[test]
fn lanes_agree_with_explanations() {
    let mut compared = 0;
    insta::glob!("../testdata/plans", "*.case", |file| {
        let plan = planned(file);
        for lane in &picture(&plan).lanes {
            let [values] = &*lane.packets else { continue };
            for value in &values.values {
                // Packets of virtual machines arrive in the pod, and are drawn as outbound.
                let is_virtual = lane.origins.contains(&Origin::Flag(Flag::KubeVirtInterfaces));
                let is_inbound = lane.path.is_inbound() || is_virtual;
                let Some(packet) = packet(&plan, is_inbound, values.noun, value) else {
                    continue;
                };
                let explanation = explain(&plan, &packet);
                let expected = match lane.path {
                    LanePath::Dropped => Fate::Dropped,
                    path => path.port().map_or(Fate::Direct, Fate::Captured),
                };
                assert_eq!(explanation.fate, expected, "{}: {lane:?}: {packet:?}", file.display());
                let origin = explanation.decided_by.map(|index| plan.rules[index].origin);
                assert!(origin.is_some_and(|one| lane.origins.contains(&one)), "{lane:?}");
                compared += 1;
            }
        }
    });
    assert!(compared > 50, "{compared}");
}

/// A packet with a value of a lane. Users, groups and interfaces of a case are of no other rule.
fn packet(plan: &Plan, is_inbound: bool, noun: &str, value: &str) -> Option<Packet> {
    let (mut address, mut port): (IpAddr, u16) = ("203.0.113.9".parse().unwrap(), 4321);
    let mut interface = "ens7".to_owned();
    let protocol = match noun {
        "UDP ports" | "DNS to" | OTHER_PACKETS => Protocol::Udp,
        _ => Protocol::Tcp,
    };
    match noun {
        "ports" | "TCP ports" | "UDP ports" => {
            port = value.parse::<PortRange>().unwrap().first();
        }
        "" | "DNS to" => {
            let range: Cidr = value.parse().unwrap();
            let (first, last) = range.ends();
            address = if last.is_loopback() { first } else { last };
            port = if noun.is_empty() { port } else { 53 };
        }
        "TCP of interfaces" | OTHER_PACKETS => value.clone_into(&mut interface),
        _ => return None,
    }
    let gid = plan.rules.iter().flat_map(|rule| &rule.matches).find_map(|one| match &one.field {
        istio_init::plan::Field::OwnerGid(gids) if one.negated => Some(*gids.first()),
        _ => None,
    });
    let owner = Owner {
        uid: "54321".parse().unwrap(),
        gid: gid.unwrap_or_else(|| "54321".parse().unwrap()),
    };
    let v4 = address.is_ipv4()
        && istio_init::render::iptables::families(plan)
            .contains(&istio_init::types::family::Family::V4);
    if !v4 && address.is_ipv4() {
        address = "2001:db8::9".parse().unwrap();
    }
    let source = if address.is_ipv4() { "192.0.2.9:4000" } else { "[2001:db8::8]:4000" };
    Some(Packet {
        direction: if is_inbound { Direction::In } else { Direction::Out },
        protocol,
        source: source.parse().unwrap(),
        destination: SocketAddr::new(address, port),
        interface,
        owner: (!is_inbound).then_some(owner),
        mark: 0,
    })
}

const OTHER_PACKETS: &str = "other packets of interfaces";
