//! Capture by TPROXY, DNS capture, and flags that Istio does not have.

use std::net::SocketAddr;
use std::process::Command;

use e2e::netns::Owner;
use e2e::sockets::Transport::{Tcp, Udp};
use e2e::sockets::{ConnectionOutcome, reach_in_the_name_of};

use crate::flags::{APP, PROXY, check, owned_by};
use crate::pod::From::World;
use crate::pod::{Addresses, Pod, init_in};
use crate::settings::Settings;
use crate::verify_and_probe::namespace;

#[test]
fn tproxy_keeps_client_address_and_excludes_tunnel() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('m', "TPROXY"));
    let proxy = owned_by(0, 1337);
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (World, Tcp, "[fd77::2]:80", "pod:15006 [fd77::2]:80"),
            (World, Tcp, "192.168.77.2:15021", "pod:15021 192.168.77.2:15021"),
            (World, Tcp, "192.168.77.2:15008", "pod:15008 192.168.77.2:15008"),
            (World, Tcp, "[fd77::2]:15008", "pod:15008 [fd77::2]:15008"),
            (World, Udp, "192.168.77.2:53", "pod:53 udp"),
            (APP, Tcp, "192.168.77.2:80", "pod:80 192.168.77.2:80"),
            (APP, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
            (proxy, Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (proxy, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (proxy, Tcp, "[fd77::2]:80", "pod:15006 [fd77::2]:80"),
            (proxy, Tcp, "192.168.77.2:15008", "pod:15008 192.168.77.2:15008"),
            (proxy, Tcp, "127.0.0.1:80", "pod:80 127.0.0.1:80"),
        ],
    );
}

/// Whether interfaces are excluded or not: loopback, which such calls pass, or the client's.
#[test]
fn proxy_calls_application_from_client_address() {
    for settings in tproxy_variants() {
        let pod = Pod::create();
        pod.init(&settings);
        for (client, target) in
            [("203.0.113.7:40000", "192.168.77.2:80"), ("[2001:db8::7]:40000", "[fd77::2]:80")]
        {
            let outcome = call_as_client(&pod, client, target);
            let ConnectionOutcome::Answered(answer) = outcome else {
                panic!("{client} {settings:?}: {outcome:?}")
            };
            let client: SocketAddr = client.parse().unwrap();
            assert_eq!((answer.by.as_str(), answer.client), ("pod:80", client.ip().to_string()));
        }
    }
}

#[test]
fn icmp_errors_about_calls_as_client_reach_the_proxy() {
    for settings in tproxy_variants() {
        let pod = Pod::create();
        pod.init(&settings);
        let mut nft = Command::new("nft");
        pod.namespace.output(nft.args(["-f", "-"]), REJECTED).expect(REJECTED);
        for (client, target) in
            [("203.0.113.7:40000", "192.168.77.2:80"), ("[2001:db8::7]:40000", "[fd77::2]:80")]
        {
            let outcome = call_as_client(&pod, client, target);
            let refused = "Connection refused (os error 111)";
            let refused = ConnectionOutcome::Failed(refused.to_owned());
            assert_eq!(outcome, refused, "{client} {settings:?}");
        }
    }
}

/// Calls as the proxy does, from the client's address with the mark of TPROXY.
fn call_as_client(pod: &Pod, client: &str, target: &str) -> ConnectionOutcome {
    let client: SocketAddr = client.parse().unwrap();
    let target: SocketAddr = target.parse().unwrap();
    let call = || reach_in_the_name_of(client, 1400, target);
    pod.namespace.run_as(Owner { uid: 0, gid: 1337 }, call).unwrap()
}

fn tproxy_variants() -> Vec<Settings> {
    let tproxy = Settings::injected_dual().with('m', "TPROXY").with('t', "1400").with('r', "140");
    let dropping = tproxy.clone().with_switch("--drop-invalid");
    let mut variants = vec![tproxy.clone(), dropping.clone()];
    for excluded in ["lo", "eth0", "lo,eth0"] {
        variants.push(tproxy.clone().with('c', excluded));
        variants.push(dropping.clone().with('c', excluded));
        variants.push(dropping.clone().with('c', excluded).by_iptables("nft"));
    }
    variants.push(tproxy.by_iptables("legacy"));
    variants
}

#[test]
fn tproxy_routes_are_added_once_and_removed() {
    let pod = Pod::create();
    let clean = pod.dump();
    let settings = Settings::injected_dual().with('m', "TPROXY");
    pod.init(&settings);
    let installed = pod.dump();
    assert_eq!(installed.matches("15006:\tfrom all fwmark 0x539 lookup 133").count(), 2);
    pod.init(&settings);
    assert_eq!(pod.dump(), installed);
    pod.init(&settings.clone().with('t', "1400").with('r', "70000"));
    let moved = pod.dump();
    assert_eq!(moved.matches("15006:\tfrom all fwmark 0x578 lookup 70000").count(), 2);
    assert_eq!(moved.matches("lookup 133").count() + moved.matches("table 133").count(), 0);
    pod.init(&Settings::injected_dual());
    assert!(!pod.dump().contains("fwmark"));
    pod.init(&settings);
    pod.init(&Settings::default().with_switch("--cleanup-only"));
    assert_eq!(pod.dump(), clean);
}

/// A rule of DNS names a server and a port, and only a query with both shows it.
#[test]
fn validation_fails_if_dns_is_not_captured() {
    let pod = namespace();
    let without = Settings::injected_dual().with_name_servers(&["203.0.113.53", "2001:db8::53"]);
    init_in(&pod, &without).expect("rules without DNS");
    let with = without.with_switch("--redirect-dns").with_switch("--run-validation");
    let missing =
        with.clone().with_switch("--skip-rule-apply").with_switch("--probe-timeout=400ms");
    let disproved = init_in(&pod, &missing).expect_err("DNS is not captured").to_string();
    for query in ["udp of 0:0", "203.0.113.53:53", "[2001:db8::53]:53"] {
        assert!(disproved.contains(query), "{query}: {disproved}");
    }
    init_in(&pod, &with).expect("rules with DNS");
}

#[test]
fn dns_is_captured_except_queries_of_the_proxy() {
    let pod = Pod::create();
    let settings = Settings::injected_dual().with_switch("--redirect-dns");
    pod.init(&settings.clone().with_name_servers(&["203.0.113.7", "2001:db8::7"]));
    check(
        &pod,
        &[
            (APP, Udp, "203.0.113.7:53", "pod:15053 udp"),
            (APP, Udp, "[2001:db8::7]:53", "pod:15053 udp"),
            (APP, Tcp, "203.0.113.7:53", "pod:15053 203.0.113.7:53"),
            (APP, Udp, "10.1.2.3:53", "world:53 udp"),
            (APP, Tcp, "10.1.2.3:53", "pod:15001 10.1.2.3:53"),
            (PROXY, Udp, "203.0.113.7:53", "world:53 udp"),
            (PROXY, Tcp, "203.0.113.7:53", "world:53 203.0.113.7:53"),
        ],
    );
    pod.init(&settings.with_switch("--capture-all-dns"));
    check(
        &pod,
        &[
            (APP, Udp, "10.1.2.3:53", "pod:15053 udp"),
            (APP, Udp, "[fd88::1]:53", "pod:15053 udp"),
            (APP, Tcp, "[fd88::1]:53", "pod:15053 [fd88::1]:53"),
            (PROXY, Udp, "10.1.2.3:53", "world:53 udp"),
        ],
    );
}

#[test]
fn name_servers_of_another_family_disable_dns_capture() {
    let pod = Pod::with(Addresses::V4);
    let settings = Settings::injected().with_switch("--redirect-dns");
    pod.init(&settings.with_name_servers(&["2001:db8::7"]));
    check(
        &pod,
        &[
            (APP, Udp, "203.0.113.7:53", "world:53 udp"),
            (APP, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
        ],
    );
}

#[test]
fn traffic_from_virtual_interfaces_is_outbound() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('k', "net*"));
    check(
        &pod,
        &[
            (World, Tcp, "192.168.99.2:80", "pod:15001 192.168.99.2:80"),
            (World, Tcp, "[fd99::2]:80", "pod:15001 [fd99::2]:80"),
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
        ],
    );
}

#[test]
fn virtual_interfaces_decide_as_output() {
    let excluding = || {
        let settings = Settings::injected_dual().with('k', "net1").with('o', "443");
        settings.with('x', "192.168.99.0/25,fd99::/16").with('i', "").with('q', "80,8080")
    };
    let ranges = excluding().with('x', "").with('i', "192.168.0.0/16").with('q', "443,8500");
    for (settings, expected) in [
        (excluding().with('x', ""), ["15001", "15001", "443", "8500"]),
        (excluding(), ["80", "80", "443", "8500"]),
        (ranges, ["15001", "80", "443", "15001"]),
    ] {
        let tproxy = settings.clone().with('m', "TPROXY");
        let iptables = settings.clone().by_iptables("nft");
        for settings in [settings, tproxy, iptables] {
            let pod = Pod::create();
            pod.init(&settings);
            let targets =
                ["192.168.99.2:80", "[fd99::2]:80", "192.168.99.2:443", "192.168.99.2:8500"];
            for (target, port) in targets.into_iter().zip(expected) {
                check(&pod, &[(World, Tcp, target, &format!("pod:{port} {target}"))]);
            }
        }
    }
}

#[test]
fn users_are_excluded_by_range_port_and_protocol() {
    let pod = Pod::create();
    let users = "--exclude-outbound-for-uids=2000-2999,4000;tcp:80,8000-9000:5000;udp:*:6000";
    pod.init(&Settings::injected_dual().with_switch(users));
    let user = |uid| owned_by(uid, 1000);
    check(
        &pod,
        &[
            (user(2000), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (user(2999), Tcp, "[fd88::1]:443", "world:443 [fd88::1]:443"),
            (user(4000), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (user(3000), Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
            (user(5000), Tcp, "203.0.113.7:8500", "world:8500 203.0.113.7:8500"),
            (user(5000), Tcp, "203.0.113.7:443", "pod:15001 203.0.113.7:443"),
            (user(6000), Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
        ],
    );
}

#[test]
fn ip_families_selects_captured_families() {
    let pod = Pod::create();
    for (families, v4, v6) in [
        ("v4", "pod:15001", "world:80"),
        ("v6", "world:80", "pod:15001"),
        ("dual", "pod:15001", "pod:15001"),
        ("auto", "pod:15001", "world:80"),
    ] {
        pod.init(&Settings::injected().with_switch(&format!("--ip-families={families}")));
        let to_v4 = format!("{v4} 203.0.113.7:80");
        let to_v6 = format!("{v6} [2001:db8::7]:80");
        check(
            &pod,
            &[(APP, Tcp, "203.0.113.7:80", &to_v4), (APP, Tcp, "[2001:db8::7]:80", &to_v6)],
        );
    }
}

#[test]
fn skip_rule_apply_changes_nothing() {
    let pod = Pod::create();
    let before = pod.dump();
    pod.init(&Settings::injected_dual().with('m', "TPROXY").with_switch("--skip-rule-apply"));
    assert_eq!(pod.dump(), before);
}

const REJECTED: &str = "table inet rejecting {
    chain input {
        type filter hook input priority 0
        tcp dport 80 reject with icmpx port-unreachable
    }
}";
