//! Effect of the iptables backend, compared with Istio's rules and the nftables backend.

use std::net::SocketAddr;
use std::process::Command;

use e2e::netns::{Namespace, Owner};
use e2e::sockets::{ConnectionOutcome, Transport};

use crate::pod::{Addresses, From, PORTS, Pod, Try, address, istio_init};
use crate::settings::Settings;

#[test]
fn both_backends_have_the_effect_of_istio() {
    let dual = Settings::injected_dual;
    let sets = [
        Settings::default(),
        Settings::injected(),
        dual(),
        dual().with('p', "16001").with('z', "16006").with('e', "15009"),
        dual().with('u', "1400").with('g', "2000"),
        dual().with('g', "2000,5000"),
        dual().with('i', "").with('q', "80"),
        dual().with('i', "10.1.2.3/9,2001:db8::/32").with('x', "10.1.0.0/16").with('q', "443"),
        dual().with('i', "127.0.0.1/32,203.0.113.0/24"),
        dual().with('i', "0.0.0.0/0,::/0"),
        dual().with('b', "80,8000:9000"),
        dual().with('b', ""),
        dual().with('o', "80,8000:9000"),
        dual().with('c', "eth0,net+"),
        dual().with_variable("ISTIO_OUTBOUND_OWNER_GROUPS", "5000,0"),
        dual().with_variable("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE", "5000"),
        dual().with_variable("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "127.0.0.1/8"),
    ];
    for settings in &sets {
        compare(settings, Addresses::Both);
    }
    for addresses in [Addresses::V4, Addresses::V6] {
        compare(&Settings::injected(), addresses);
    }
}

#[test]
fn several_proxy_users_have_equal_effect_in_both_backends() {
    let settings = Settings::injected_dual().with('u', "1337,1400").with('g', "2000,5000");
    let tries = matrix(Addresses::Both);
    let outcomes = |settings: Settings| {
        let pod = Pod::create();
        pod.init(&settings);
        pod.outcomes(&tries)
    };
    let expected = outcomes(settings.clone());
    for variant in VARIANTS {
        let settings = settings.clone().by_iptables(variant);
        show_no_difference(&settings, &tries, &expected, &outcomes(settings.clone()));
    }
}

/// Istio's rules are compared with the nftables backend in `differential`, with the intended
/// differences.
#[test]
fn other_flags_have_equal_effect_in_both_backends() {
    let dual = Settings::injected_dual;
    let tproxy = || dual().with('m', "TPROXY").with('u', "0").with('g', "1337");
    let dns = || dual().with_switch("--redirect-dns");
    for settings in [
        tproxy(),
        tproxy().with('b', "80,8000:9000").with('t', "1400").with('r', "140"),
        tproxy().with('c', "net1"),
        tproxy().with_switch("--redirect-dns").with_switch("--capture-all-dns"),
        dns().with_switch("--capture-all-dns"),
        dns().with_name_servers(&["203.0.113.7", "2001:db8::7"]),
        dual().with_switch("--drop-invalid"),
        dual().with('k', "net1"),
        dual().with('k', "net1").with('i', "10.0.0.0/8,fd00::/8"),
        dual().with_switch("--exclude-outbound-for-uids=1000,1400-1500"),
    ] {
        let tries = matrix(Addresses::Both);
        let outcomes = |settings: &Settings| {
            let pod = Pod::create();
            pod.init(settings);
            let outcomes = pod.outcomes(&tries);
            // A second run recognises its own rules.
            let once = (pod.dump(), rules(&pod, "legacy"));
            pod.init(settings);
            assert_eq!((pod.dump(), rules(&pod, "legacy")), once, "{settings:?}");
            outcomes
        };
        let expected = outcomes(&settings);
        for variant in VARIANTS {
            let settings = settings.clone().by_iptables(variant);
            show_no_difference(&settings, &tries, &expected, &outcomes(&settings));
        }
    }
}

#[test]
fn default_iptables_text_equals_istio() {
    let pod = Pod::with(Addresses::V4);
    let text = pod.init(&Settings::injected().by_iptables("nft").dry_run());
    let istios = crate::istio::restore_text(&Settings::injected(), false);
    let expected: Vec<String> = istios
        .lines()
        .map(|line| match line.strip_prefix("-N ") {
            // `-N` fails if the chain exists; this creates or empties it.
            Some(chain) => format!(":{chain} - [0:0]"),
            None => line.to_owned(),
        })
        .collect();
    let ours: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(ours, expected);
}

#[test]
fn dry_run_text_installs_the_same_iptables_rules() {
    for settings in [
        Settings::injected_dual(),
        Settings::injected_dual()
            .with('u', "1337,1400")
            .with('b', "80,8000:9000")
            .with('c', "net1,eth+")
            .with('i', "10.1.2.3/9,127.0.0.1/32,fd00::/17,::/0")
            .with('x', "0.0.0.0/0,fd88::1/128")
            .with_variable("ISTIO_OUTBOUND_OWNER_GROUPS", "5000,6000"),
    ] {
        for variant in VARIANTS {
            let settings = settings.clone().by_iptables(variant);
            let (by_program, by_text) = (Pod::create(), Pod::create());
            by_program.init(&settings);
            let before = by_text.dump();
            let text = by_text.init(&settings.clone().dry_run());
            assert_eq!(by_text.dump(), before, "a dry run changes nothing");
            assert_eq!(legacy_tables(&by_text.namespace), "", "a dry run makes no table");
            for part in text.split("# ").filter(|part| part.contains("* nat")) {
                let (program, rules) = part.split_once('\n').unwrap();
                let program = program.split(' ').next().unwrap();
                let program = program.replace("tables-", &format!("tables-{variant}-"));
                let mut restore = Command::new(program);
                by_text.namespace.output(restore.arg("--noflush"), rules).expect(rules);
            }
            assert_eq!(rules(&by_text, variant), rules(&by_program, variant), "{settings:?}");
        }
    }
}

#[test]
fn invalid_backend_is_reported_with_other_errors() {
    let pod = Pod::create();
    let refusal = |words: &[&str]| {
        let output = pod.namespace.run(|| istio_init().args(words).output()).unwrap().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let stderr =
        refusal(&["--backend", "ebtables", "--force-iptables-binary=random", "-x", "10.0.0.1"]);
    insta::assert_snapshot!(stderr, @r"
    error: --backend: `ebtables` is not a backend
      hint: use auto, iptables or nftables
    error: --force-iptables-binary: `random` is not a variant of iptables
      hint: use legacy or nft
    error: --istio-service-exclude-cidr: `10.0.0.1` is not an address range: it has no prefix length
      hint: write 10.0.0.1/32
    ");
    insta::assert_snapshot!(refusal(&["--backend=iptables", "--native-nftables"]), @r"
    error: --backend: `iptables` contradicts --native-nftables
      hint: use only one of them
    ");
}

fn compare(settings: &Settings, addresses: Addresses) {
    let tries = matrix(addresses);
    let istios = Pod::with(addresses);
    istios.istio(settings);
    let expected = istios.outcomes(&tries);
    for settings in [
        settings.clone(),
        settings.clone().by_iptables("nft"),
        settings.clone().by_iptables("legacy"),
    ] {
        let ours = Pod::with(addresses);
        ours.init(&settings);
        show_no_difference(&settings, &tries, &expected, &ours.outcomes(&tries));
    }
}

fn show_no_difference(
    settings: &Settings,
    tries: &[Try],
    expected: &[ConnectionOutcome],
    seen: &[ConnectionOutcome],
) {
    let differences: Vec<String> = tries
        .iter()
        .zip(expected.iter().zip(seen))
        .filter(|(_, (expected, seen))| expected != seen)
        .map(|(attempt, (expected, seen))| format!("{attempt:?}\n  {expected:?}\n  {seen:?}"))
        .collect();
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(
        differences.is_empty(),
        "{settings:?}: {} differences, expected and seen:\n{shown}",
        differences.len()
    );
}

/// Owners, addresses and ports of every kind; `differential` has more of each.
fn matrix(addresses: Addresses) -> Vec<Try> {
    let has = |text: &&&str| match addresses {
        Addresses::V4 => !text.contains(':'),
        Addresses::V6 => text.contains(':'),
        Addresses::Both => true,
    };
    let places = OWNERS.iter().map(|owner| From::Pod(*owner)).chain([From::World]);
    let mut tries = Vec::new();
    for from in places {
        let outside = if from == From::World { &[][..] } else { OUTSIDE };
        for target in outside.iter().chain(OWN).filter(has) {
            for port in PORTS {
                let target = SocketAddr::new(address(target), *port);
                tries.push(Try { from, transport: Transport::Tcp, source: None, target });
            }
            for port in [53, 80] {
                let target = SocketAddr::new(address(target), port);
                tries.push(Try { from, transport: Transport::Udp, source: None, target });
            }
        }
    }
    tries
}

/// Returns the rules of one variant in both families, without packet counters.
pub(crate) fn rules(pod: &Pod, variant: &str) -> String {
    let save = |program: &str| {
        let mut save = Command::new(format!("{program}-{variant}-save"));
        pod.namespace.output(&mut save, "").expect(program)
    };
    let saved = save("iptables") + &save("ip6tables");
    let without_count = |line: &str| line.split(" [").next().unwrap_or_default().to_owned() + "\n";
    saved.lines().filter(|line| !line.starts_with('#')).map(without_count).collect()
}

pub(crate) fn legacy_tables(namespace: &Namespace) -> String {
    let mut cat = Command::new("cat");
    cat.args(["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"]);
    namespace.output(&mut cat, "").expect("the kernel's names of legacy tables")
}

pub(crate) const VARIANTS: [&str; 2] = ["nft", "legacy"];
const OWNERS: &[Owner] = &[
    Owner { uid: 0, gid: 0 },
    Owner { uid: 1000, gid: 5000 },
    Owner { uid: 1337, gid: 1337 },
    Owner { uid: 1000, gid: 1337 },
    Owner { uid: 1400, gid: 2000 },
];
const OUTSIDE: &[&str] = &["10.1.2.3", "203.0.113.7", "fd88::1", "2001:db8::7"];
const OWN: &[&str] = &["192.168.77.2", "192.168.99.2", "fd77::2", "127.0.0.1", "::1"];
