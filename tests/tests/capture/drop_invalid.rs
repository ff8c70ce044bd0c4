//! Packets in connection state invalid, with and without `--drop-invalid`.

use std::fs;
use std::net::IpAddr;
use std::process::Command;

use e2e::netns::Owner;

use crate::forwarded_dns::ask;
use crate::pod::{Pod, address};
use crate::raw::{ACK, RST, Raw, Reply, SYN};
use crate::settings::Settings;

#[test]
fn drop_invalid_drops_segments_without_connection() {
    for settings in variants() {
        let pod = Pod::create();
        without_pickup(&pod);
        for (settings, is_dropped) in [(settings.clone(), false), (dropping(settings), true)] {
            pod.init(&settings);
            for (source, target) in WAYS {
                let replies = replies_to_a_bare_ack(&pod, address(source), address(target));
                let rest: &[Reply] = if is_dropped { &[] } else { &[RESET] };
                assert_eq!(replies, rest, "{source} {settings:?}");
            }
        }
    }
}

#[test]
fn drop_invalid_drops_unsolicited_answers() {
    for settings in variants() {
        let pod = Pod::create();
        for (settings, arrivals) in [(settings.clone(), 1), (dropping(settings), 0)] {
            pod.init(&settings);
            for (source, target) in WAYS {
                let seen = echo_replies_that_arrive(&pod, address(source), address(target));
                assert_eq!(seen, arrivals, "{source} {settings:?}");
            }
        }
    }
}

#[test]
fn excluded_interfaces_drop_nothing() {
    for settings in variants() {
        let pod = Pod::create();
        pod.init(&dropping(settings.clone().with('c', "eth0")));
        for (source, target) in WAYS {
            let seen = echo_replies_that_arrive(&pod, address(source), address(target));
            assert_eq!(seen, 1, "{source} {settings:?}");
        }
    }
}

/// The proxy's queries have a zone of connection tracking, errors about them have none.
#[test]
fn icmp_errors_about_dns_arrive() {
    for settings in variants() {
        let pod = Pod::create();
        let mut nft = Command::new("nft");
        pod.world.output(nft.args(["-f", "-"]), CLOSED).expect(CLOSED);
        let settings = settings.with_switch("--redirect-dns").with_switch("--capture-all-dns");
        pod.init(&dropping(settings.clone()));
        for server in ["203.0.113.7:53", "[2001:db8::7]:53"] {
            let server = server.parse().expect("an address");
            let proxy = Owner { uid: 1337, gid: 1337 };
            let outcome = pod.namespace.run_as(proxy, || ask(server)).expect("a thread in the pod");
            assert_eq!(outcome, "connection refused", "{server} {settings:?}");
        }
    }
}

/// Both modes, both backends, both families.
fn variants() -> Vec<Settings> {
    let redirection = Settings::injected_dual;
    let tproxy = || redirection().with('m', "TPROXY").with('b', "");
    let mut variants = vec![redirection(), tproxy()];
    for variant in ["nft", "legacy"] {
        variants.extend([redirection(), tproxy()].map(|settings| settings.by_iptables(variant)));
    }
    variants
}

fn dropping(settings: Settings) -> Settings {
    settings.with_switch("--drop-invalid")
}

/// Returns the pod's replies to a segment of an unknown connection, up to the reply to a new one.
fn replies_to_a_bare_ack(pod: &Pod, source: IpAddr, target: IpAddr) -> Vec<Reply> {
    let exchange = || {
        let raw = Raw::tcp(source, target);
        raw.send_segment(40000, 8080, ACK);
        raw.send_segment(40001, 15021, SYN);
        // Replies come in the order of the segments.
        let replies = std::iter::repeat_with(|| raw.receive());
        replies.take_while(|reply| *reply != AGREEMENT).collect()
    };
    pod.world.run(exchange).expect("a thread in the world")
}

/// Counts the echo replies that reach the pod's kernel after one was sent.
fn echo_replies_that_arrive(pod: &Pod, source: IpAddr, target: IpAddr) -> u64 {
    let (request, reply) = if target.is_ipv4() { (8, 0) } else { (128, 129) };
    let before = echo_replies(pod, target);
    let exchange = || {
        let raw = Raw::icmp(source, target);
        raw.send_message(reply);
        raw.send_message(request);
        while raw.receive().kind != reply {}
    };
    pod.world.run(exchange).expect("a thread in the world");
    echo_replies(pod, target) - before
}

fn echo_replies(pod: &Pod, target: IpAddr) -> u64 {
    let read = |file: &str| {
        let text = pod.namespace.run(|| fs::read_to_string(file).expect(file));
        text.expect("a thread in the pod")
    };
    let count = if target.is_ipv4() {
        let table = read("/proc/thread-self/net/snmp");
        let mut lines = table.lines().filter(|line| line.starts_with("Icmp: "));
        let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
        let mut columns = names.split(' ').zip(numbers.split(' '));
        columns.find(|(name, _)| *name == "InEchoReps").map(|(_, number)| number.to_owned())
    } else {
        let table = read("/proc/thread-self/net/snmp6");
        let line = table.lines().find(|line| line.starts_with("Icmp6InEchoReplies "));
        line.and_then(|line| line.split_whitespace().last().map(str::to_owned))
    };
    count.expect("a count of echo replies").parse().expect("a number")
}

/// Disables pick-up: otherwise connection tracking accepts a segment of an unknown connection as
/// one whose beginning it missed.
fn without_pickup(pod: &Pod) {
    let set = || fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_loose", "0");
    pod.namespace.run(set).expect("a thread in the pod").expect("a setting of the kernel");
}

const CLOSED: &str = "table inet closed {
    chain input {
        type filter hook input priority 0
        udp dport 53 reject with icmpx port-unreachable
    }
}";
const WAYS: [(&str, &str); 2] = [("192.168.77.1", "192.168.77.2"), ("fd77::1", "fd77::2")];
/// Reply of a listener to a segment without a connection.
const RESET: Reply = Reply { port: 8080, kind: RST };
/// Reply of a listener to the first segment of a connection; this port is never captured.
const AGREEMENT: Reply = Reply { port: 15021, kind: SYN | ACK };
