//! Comparison of `explain` with real packets.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};

use e2e::netns::Owner;
use e2e::random::{Random, rounds, seed};
use e2e::sockets::{ConnectionOutcome, Transport};
use istio_init::args::{Args, Environment};
use istio_init::config::{Config, PodEnvironment};
use istio_init::explain::{Explanation, Fate, Owner as Sender, Packet, explain};
use istio_init::plan::{Plan, plan};
use istio_init::types::direction::Direction;
use istio_init::types::protocol::Protocol;

use crate::endpoints::{FROM_LOOPBACK, LOOPBACKS, OUTSIDE, OWN};
use crate::pod::{From, PORTS, Pod, Try, address};
use crate::settings::Settings;

/// Settings that Istio does not have. All others are compared with Istio's rules in `differential`.
#[test]
fn explanations_match_real_packets() {
    let mut random = Random::new(seed(), "explain");
    let pod = Pod::create();
    for _ in 0..rounds(15, 150) {
        let settings = random_settings(&mut random);
        pod.init(&settings);
        let plan = planned(&settings);
        let tries = random_tries(&mut random, &plan, TRIES);
        let is_explained = |place: usize, outcome: &_| is_explained(&plan, &tries[place], outcome);
        explains(&settings, &plan, &tries, &pod.outcomes_afresh(&tries, is_explained));
    }
}

#[test]
fn virtual_interface_is_outbound_with_tproxy() {
    let settings = Settings::injected_dual().with('m', "TPROXY").with('k', "net1");
    let pod = Pod::create();
    pod.init(&settings);
    let target = SocketAddr::new(address("192.168.99.2"), 80);
    let tries = [Try { from: From::World, transport: Transport::Tcp, source: None, target }];
    let outcomes = pod.outcomes(&tries);
    assert_eq!(seen(&tries[0], &outcomes[0]), "pod:15001 192.168.99.2:80");
    explains(&settings, &planned(&settings), &tries, &outcomes);
}

/// Groups tries by their origin: one thread runs each group.
pub(crate) fn random_tries(random: &mut Random, plan: &Plan, count: usize) -> Vec<Try> {
    // The source ::6 exists if IPv6 is captured.
    let is_possible = |t: &Try| plan.passthrough_address || t.source != Some(address("::6"));
    let tries = std::iter::repeat_with(|| random_try(random));
    let mut tries: Vec<Try> = tries.filter(is_possible).take(count).collect();
    tries.sort();
    tries
}

/// The fate from `explain` equals the observed one for each packet.
pub(crate) fn explains(
    settings: &Settings,
    plan: &Plan,
    tries: &[Try],
    outcomes: &[ConnectionOutcome],
) {
    for (attempt, outcome) in tries.iter().zip(outcomes) {
        let explanation = explain(plan, &packet(attempt));
        let expected = expected(attempt, &explanation);
        assert_eq!(seen(attempt, outcome), expected, "{settings:?}\n{attempt:?}\n{explanation:?}");
    }
}

pub(crate) fn is_explained(plan: &Plan, attempt: &Try, outcome: &ConnectionOutcome) -> bool {
    seen(attempt, outcome) == expected(attempt, &explain(plan, &packet(attempt)))
}

/// Listener that answers, and original destination.
fn expected(attempt: &Try, explanation: &Explanation) -> String {
    let target = attempt.target;
    let original = match attempt.transport {
        Transport::Tcp => target.to_string(),
        Transport::Udp => "udp".to_owned(),
    };
    match explanation.fate {
        Fate::Captured(port) => format!("pod:{port} {original}"),
        Fate::Direct if is_own(target.ip()) => format!("pod:{} {original}", target.port()),
        Fate::Direct => format!("world:{} {original}", target.port()),
        Fate::Dropped => "no answer".to_owned(),
    }
}

fn seen(attempt: &Try, outcome: &ConnectionOutcome) -> String {
    match outcome {
        ConnectionOutcome::Answered(answer) => format!("{} {}", answer.by, answer.original),
        ConnectionOutcome::Failed(_) => format!("no answer at {}", attempt.target),
    }
}

fn packet(attempt: &Try) -> Packet {
    let target = attempt.target;
    let (direction, owner) = match attempt.from {
        From::Pod(owner) => {
            let number = |number: u32| number.to_string();
            let uid = number(owner.uid).parse().expect("a user");
            let gid = number(owner.gid).parse().expect("a group");
            (Direction::Out, Some(Sender { uid, gid }))
        }
        From::World => (Direction::In, None),
    };
    let far_net =
        |ip: IpAddr| ip.to_string().starts_with("192.168.99.") || ip == address("fd99::1");
    let interface = match direction {
        Direction::Out if is_own(target.ip()) => "lo",
        _ if far_net(target.ip()) => "net1",
        _ => "eth0",
    };
    let unspecified = || if target.is_ipv4() { address("0.0.0.0") } else { address("::") };
    Packet {
        direction,
        protocol: match attempt.transport {
            Transport::Tcp => Protocol::Tcp,
            Transport::Udp => Protocol::Udp,
        },
        source: SocketAddr::new(attempt.source.unwrap_or_else(unspecified), 0),
        destination: target,
        interface: interface.to_owned(),
        owner,
        mark: 0,
    }
}

fn is_own(ip: IpAddr) -> bool {
    ip.is_loopback() || OWN.contains(&&*ip.to_string())
}

pub(crate) fn planned(settings: &Settings) -> Plan {
    let words = std::iter::once("istio-init".to_owned()).chain(settings.command_line());
    let environment: Environment = settings
        .environment()
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let args = Args::parse(words.map(OsString::from), &environment).expect("usage");
    let addresses = OWN.iter().map(|text| address(text)).collect();
    let lines = settings.name_servers().unwrap_or_default().iter();
    let resolv_conf = Ok(lines.flat_map(|server| ["nameserver ", *server, "\n"]).collect());
    let surroundings = PodEnvironment { addresses, resolv_conf, ..PodEnvironment::default() };
    plan(&Config::read(&args, &surroundings).expect("valid settings").0)
}

fn random_try(random: &mut Random) -> Try {
    let port = random.pick(PORTS);
    let transport = random.pick(&[Transport::Tcp, Transport::Tcp, Transport::Udp]);
    if random.one_in(4) {
        let target = SocketAddr::new(address(random.pick(OWN)), port);
        return Try { from: From::World, transport, source: None, target };
    }
    let from = From::Pod(random.pick(OWNERS));
    if random.one_in(8) {
        let (source, target) = random.pick(FROM_LOOPBACK);
        let (source, target) = (Some(address(source)), SocketAddr::new(address(target), port));
        return Try { from, transport: Transport::Tcp, source, target };
    }
    let places = random.pick(&[OUTSIDE, OUTSIDE, OWN, LOOPBACKS]);
    let target = SocketAddr::new(address(random.pick(places)), port);
    Try { from, transport, source: None, target }
}

fn random_settings(random: &mut Random) -> Settings {
    let mut settings = Settings::default();
    settings.dual_stack = random.one_in(2);
    let ports = ["80", "443", "8080", "9080", "15008", "53", "15021", "8000:9000", "65535"];
    let ranges = [
        "10.0.0.0/8",
        "10.1.2.3/32",
        "0.0.0.0/1",
        "203.0.113.7/25",
        "192.168.77.0/24",
        "127.0.0.1/32",
        "fd00::/8",
        "2001:db8::7/128",
        "::/0",
        "::1/128",
    ];
    for (flag, choices, wildcard) in [
        ('b', &ports[..], true),
        ('d', &ports, false),
        ('o', &ports, false),
        ('q', &ports, false),
        ('i', &ranges, true),
        ('x', &ranges, false),
        ('c', &["net1", "eth0", "eth+"], false),
        ('k', &["net1"], false),
        ('u', &["1337", "1400"], false),
        ('g', &["1337", "2000", "5000"], false),
        ('p', &["15001", "16001"], false),
        ('z', &["15006", "16006"], false),
        ('e', &["15008", "15009"], false),
    ] {
        if wildcard && random.one_in(2) {
            settings = settings.with(flag, "*");
        } else if random.one_in(2) {
            let value = if "pze".contains(flag) {
                random.pick(choices).to_owned()
            } else {
                random.some_of(choices)
            };
            settings = settings.with(flag, &value);
        }
    }
    if random.one_in(3) {
        settings = settings.with('m', "TPROXY");
    }
    if random.one_in(3) {
        settings = settings.with_switch("--redirect-dns").with_switch("--capture-all-dns");
    }
    for (switch, sides) in [
        ("--drop-invalid", 4),
        ("--exclude-outbound-for-uids=1000", 6),
        ("--exclude-outbound-for-uids=tcp:80,8000-9000:900-1400", 6),
    ] {
        if random.one_in(sides) {
            settings = settings.with_switch(switch);
        }
    }
    for (name, choices) in [
        ("ISTIO_OUTBOUND_OWNER_GROUPS", &["0", "1000", "5000", "1337"][..]),
        ("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", &["0", "1000", "5000", "1337"]),
    ] {
        if random.one_in(4) {
            settings = settings.with_variable(name, &random.some_of(choices));
        }
    }
    if random.one_in(4) {
        settings = settings.with_variable("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "127.0.0.0/8");
    }
    settings
}

const OWNERS: &[Owner] = &[
    Owner { uid: 0, gid: 0 },
    Owner { uid: 1000, gid: 1000 },
    Owner { uid: 1000, gid: 5000 },
    Owner { uid: 1337, gid: 1337 },
    Owner { uid: 1337, gid: 1000 },
    Owner { uid: 1000, gid: 1337 },
    Owner { uid: 1400, gid: 2000 },
];
const TRIES: usize = 300;
