//! Comparison with Istio's rules: twin pods, one with Istio's rules loaded by iptables, one with
//! this program's.

use std::net::SocketAddr;

use e2e::netns::Owner;
use e2e::random::{Random, rounds, seed};
use e2e::sockets::{ConnectionOutcome, Transport};

use crate::endpoints::{FROM_LOOPBACK, LOOPBACKS, OUTSIDE, OWN};
use crate::explain::{explains, is_explained, planned, random_tries};
use crate::istio;
use crate::pod::{Addresses, From, PORTS, Pod, Try, address};
use crate::settings::Settings;

#[test]
fn every_flag_has_the_effect_of_istio() {
    let injected = Settings::injected;
    let dual = Settings::injected_dual;
    let sets = [
        Settings::default(),
        injected(),
        dual(),
        dual().with('p', "16001").with('z', "16006"),
        dual().with('e', "15009"),
        dual().with('u', "1400"),
        dual().with('g', "2000"),
        dual().with('u', "1400").with('g', "2000"),
        dual().with('g', "2000,5000"),
        dual().with('u', "1337,1400"),
        dual().with('u', "1337,1400").with('i', "127.0.0.0/8,10.0.0.0/8"),
        dual().with('i', ""),
        dual().with('i', "10.0.0.0/8,2001:db8::/32"),
        dual().with('i', "10.1.2.3/9"),
        dual().with('i', "127.0.0.1/32,203.0.113.0/24"),
        dual().with('i', "::1/128"),
        dual().with('i', "0.0.0.0/0,::/0"),
        dual().with('i', "10.0.0.0/8").with('x', "10.1.0.0/16").with('q', "443,8080"),
        dual().with('x', "10.0.0.0/8,2001:db8::/32"),
        dual().with('x', "10.0.0.0/8").with('q', "80").with('i', ""),
        dual().with('x', "192.168.77.2/32,fd77::2/128"),
        dual().with('b', ""),
        dual().with('b', "80,8080"),
        dual().with('b', "80,15008").with('d', "80"),
        dual().with('b', "8000:9000"),
        dual().with('d', ""),
        dual().with('d', "80, 443"),
        dual().with('o', "80,53"),
        dual().with('o', "8000:9000").with('q', "8080").with('i', ""),
        dual().with('q', "80").with('i', ""),
        dual().with('c', "net1"),
        dual().with('c', "eth0,net1"),
        dual().with('c', "net+"),
        dual().with('c', "lo"),
        dual().with_variable(GROUPS, "5000"),
        dual().with_variable(GROUPS, "5000,0"),
        dual().with_variable(GROUPS, ""),
        dual().with_variable(GROUPS, "5000").with_variable(GROUPS_EXCLUDE, "0"),
        dual().with_variable(GROUPS_EXCLUDE, "5000,1000"),
        dual().with_variable(LOOPBACK, "127.0.0.1/8"),
        dual().with_variable(LOOPBACK, "127.0.0.1/16").with('i', "127.9.0.0/16"),
    ];
    for (place, settings) in sets.iter().chain(&beyond_redirection()).enumerate() {
        compare(settings, Addresses::Both, place);
    }
    for (place, addresses) in [Addresses::V4, Addresses::V6].into_iter().enumerate() {
        compare(&injected(), addresses, place);
        compare(&dual(), addresses, place);
        let ranges = dual().with('i', "10.0.0.0/8,2001:db8::/32").with('x', "fd88::/16");
        compare(&ranges, addresses, place);
    }
}

/// TPROXY, DNS, virtual interfaces and invalid packets, separately and combined.
fn beyond_redirection() -> Vec<Settings> {
    let dual = Settings::injected_dual;
    let tproxy = || dual().with('m', "TPROXY");
    let dns = || dual().with_switch("--redirect-dns");
    let all = || dns().with_switch("--capture-all-dns");
    vec![
        tproxy(),
        tproxy().with('t', "1400").with('r', "1400"),
        tproxy().with('b', "80,8000:9000"),
        tproxy().with('b', ""),
        tproxy().with('c', "net1"),
        tproxy().with('k', "net1"),
        tproxy().with('z', "16006").with('g', "2000"),
        tproxy().with_switch("--drop-invalid"),
        tproxy().with_switch("--redirect-dns").with_switch("--capture-all-dns"),
        all(),
        all().with('o', "53"),
        all().with('i', ""),
        all().with('i', "127.0.0.0/8,10.0.0.0/8"),
        all().with_variable(GROUPS_EXCLUDE, "5000"),
        dns().with_name_servers(&["203.0.113.7", "2001:db8::7"]),
        dns().with_name_servers(&["203.0.113.7", "10.1.2.3"]),
        dns().with_name_servers(&["2001:db8::7"]),
        dns().with_name_servers(&["127.0.0.1"]),
        dns().with_name_servers(&[]),
        dual().with('k', "net1"),
        dual().with('k', "net1").with('c', "net1"),
        dual().with('k', "eth0,net1").with('i', "192.168.0.0/16,fd77::/16"),
        dual().with_switch("--drop-invalid"),
    ]
}

/// Istio's rules, both backends and `explain` agree. Each run replaces other settings.
#[test]
fn random_settings_have_the_effect_of_istio() {
    let mut random = Random::new(seed(), "differential");
    let [istios, by_nftables, by_iptables] = [(); 3].map(|()| Pod::create());
    for _ in 0..rounds(40, 400) {
        let settings = random_settings(&mut random);
        istios.forget_istio(&settings);
        istios.istio(&settings);
        by_nftables.init(&settings);
        by_iptables.init(&settings.clone().by_iptables("nft"));
        let plan = planned(&settings);
        let tries = random_tries(&mut random, &plan, RANDOM_TRIES);
        let is_explained = |place: usize, outcome: &_| is_explained(&plan, &tries[place], outcome);
        let ours = by_nftables.outcomes_afresh(&tries, is_explained);
        explains(&settings, &plan, &tries, &ours);
        let is_ours = |place: usize, outcome: &_| ours[place] == *outcome;
        let theirs = istios.outcomes_afresh(&tries, is_ours);
        no_difference(&settings, &tries, (&ours, &theirs), is_allowed);
        let theirs = by_iptables.outcomes_afresh(&tries, is_ours);
        no_difference(&settings, &tries, (&ours, &theirs), |_, _| false);
        istios.forget_istio(&settings);
    }
}

/// Runs a part of all attempts, a different one for each settings.
fn compare(settings: &Settings, addresses: Addresses, place: usize) {
    let (ours, istios) = (Pod::with(addresses), Pod::with(addresses));
    ours.init(settings);
    istios.istio(settings);
    let tries: Vec<Try> =
        matrix(addresses).into_iter().skip(place % PARTS).step_by(PARTS).collect();
    let (ours, istios) = (ours.outcomes(&tries), istios.outcomes(&tries));
    no_difference(settings, &tries, (&ours, &istios), is_allowed);
}

fn no_difference(
    settings: &Settings,
    tries: &[Try],
    (ours, theirs): (&[ConnectionOutcome], &[ConnectionOutcome]),
    is_allowed: impl Fn(&Settings, &Try) -> bool,
) {
    let differences: Vec<String> = tries
        .iter()
        .zip(ours.iter().zip(theirs))
        .filter(|(attempt, (ours, theirs))| ours != theirs && !is_allowed(settings, attempt))
        .map(|(attempt, (ours, theirs))| format!("{attempt:?}\n  {ours:?}\n  {theirs:?}"))
        .collect();
    let found = differences.len();
    let shown = differences.into_iter().take(5).collect::<Vec<_>>().join("\n");
    assert_eq!(found, 0, "{settings:?}: ours by nftables, then the other's:\n{shown}");
}

/// True for an intended difference. With TPROXY, Istio also captures the tunnel's port, and traffic
/// of virtual interfaces as inbound; this program never does. Exclusions and ports of outbound
/// traffic apply to virtual interfaces here, not in Istio. With several proxy users, Istio has a rule for loopback traffic of all users
/// except the first. It also captures calls of the other proxy users to their own pod, which this
/// program does not.
fn is_allowed(settings: &Settings, attempt: &Try) -> bool {
    let is_tunnel = attempt.target.port().to_string() == settings.flag('e');
    let arrives_at = if attempt.target.ip() == address("192.168.99.2") { "net1" } else { "eth0" };
    let is_virtual = attempt.from == From::World && settings.list('k').contains(&arrives_at);
    if settings.flag('m') == "TPROXY" && (is_tunnel || is_virtual) {
        return true;
    }
    if is_virtual && ['o', 'x', 'q'].iter().any(|flag| !settings.flag(*flag).is_empty()) {
        return true;
    }
    let From::Pod(owner) = attempt.from else {
        return false;
    };
    let is_later = settings.list('u').iter().skip(1).any(|uid| *uid == owner.uid.to_string());
    let target = attempt.target.ip();
    let stays_in_the_pod = target.is_loopback() || OWN.contains(&&*target.to_string());
    is_later && stays_in_the_pod && !istio::captures_loopback(settings)
}

/// Every owner in the pod, and the outside, to every address and port.
fn matrix(addresses: Addresses) -> Vec<Try> {
    let has = |text: &&&str| match addresses {
        Addresses::V4 => !text.contains(':'),
        Addresses::V6 => text.contains(':') || text.starts_with("127."),
        Addresses::Both => true,
    };
    let mut tries = Vec::new();
    for owner in OWNERS {
        for target in OUTSIDE.iter().chain(OWN).chain(LOOPBACKS).filter(has) {
            for port in PORTS {
                let target = SocketAddr::new(address(target), *port);
                for transport in [Transport::Tcp, Transport::Udp] {
                    let from = From::Pod(*owner);
                    tries.push(Try { from, transport, source: None, target });
                }
            }
        }
        for (source, target) in FROM_LOOPBACK.iter().filter(|(_, target)| has(&target)) {
            let (source, target) = (Some(address(source)), SocketAddr::new(address(target), 80));
            let from = From::Pod(*owner);
            tries.push(Try { from, transport: Transport::Tcp, source, target });
        }
    }
    for target in OWN.iter().filter(has) {
        for port in PORTS {
            let target = SocketAddr::new(address(target), *port);
            for transport in [Transport::Tcp, Transport::Udp] {
                tries.push(Try { from: From::World, transport, source: None, target });
            }
        }
    }
    tries
}

fn random_settings(random: &mut Random) -> Settings {
    let mut settings = Settings::default();
    settings.dual_stack = random.one_in(2);
    let ports = ["80", "443", "8080", "9080", "15008", "53", "15021", "8000:9000", "0", "65535"];
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
    let groups = ["0", "1000", "5000", "1337"];
    for (flag, choices, wildcard) in [
        ('b', &ports[..], true),
        ('d', &ports, false),
        ('o', &ports, false),
        ('q', &ports, false),
        ('i', &ranges, true),
        ('x', &ranges, false),
        ('c', &["net1", "eth0", "eth+"], false),
        // Several users are rare, since a difference from Istio is allowed for them.
        ('u', &["1337", "1337", "1337", "1400"], false),
        ('g', &["1337", "2000", "5000"], false),
        ('p', &["15001", "16001"], false),
        ('z', &["15006", "16006"], false),
        ('e', &["15008", "15009"], false),
        ('t', &["1337", "1400"], false),
        ('r', &["133", "140"], false),
    ] {
        if wildcard && random.one_in(2) {
            settings = settings.with(flag, "*");
        } else if "pzetr".contains(flag) {
            if random.one_in(3) {
                settings = settings.with(flag, random.pick(choices));
            }
        } else if random.one_in(2) {
            settings = settings.with(flag, &random.some_of(choices));
        }
    }
    if random.one_in(4) {
        settings = settings.with_variable(GROUPS, &random.some_of(&groups));
    }
    if random.one_in(4) {
        settings = settings.with_variable(GROUPS_EXCLUDE, &random.some_of(&groups));
    }
    if random.one_in(4) {
        settings = settings.with_variable(LOOPBACK, "127.0.0.0/8");
    }
    if random.one_in(3) {
        settings = settings.with('m', "TPROXY");
    }
    if random.one_in(4) {
        settings = settings.with('k', random.pick(&["net1", "eth0"]));
    }
    if random.one_in(4) {
        settings = settings.with_switch("--drop-invalid");
    }
    if random.one_in(3) {
        settings = settings.with_switch("--redirect-dns");
        settings = if random.one_in(2) {
            settings.with_switch("--capture-all-dns")
        } else {
            let servers = ["203.0.113.7", "2001:db8::7", "10.1.2.3", "127.0.0.1", "fd77::2"];
            settings.with_name_servers(&[random.pick(&servers), random.pick(&servers)])
        };
    }
    settings
}

const GROUPS: &str = "ISTIO_OUTBOUND_OWNER_GROUPS";
const GROUPS_EXCLUDE: &str = "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE";
const LOOPBACK: &str = "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR";

/// Applications, the proxy, and owners with only its user or only its group.
const OWNERS: &[Owner] = &[
    Owner { uid: 0, gid: 0 },
    Owner { uid: 1000, gid: 1000 },
    Owner { uid: 1000, gid: 5000 },
    Owner { uid: 1337, gid: 1337 },
    Owner { uid: 1337, gid: 1000 },
    Owner { uid: 1000, gid: 1337 },
    Owner { uid: 1400, gid: 2000 },
    Owner { uid: 0, gid: 1337 },
];
const RANDOM_TRIES: usize = 300;
/// Number of settings after which all attempts were made.
const PARTS: usize = 4;
