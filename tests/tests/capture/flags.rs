//! Effect of each flag as readable tables: sender, destination, listener that answers, original
//! destination.

use std::net::SocketAddr;

use e2e::netns::Owner;
use e2e::sockets::ConnectionOutcome;
use e2e::sockets::Transport::{self, Tcp, Udp};

use crate::pod::From::{self, Pod as FromPod, World};
use crate::pod::{Addresses, Pod, Try, address};
use crate::settings::Settings;

#[test]
fn injected_flags_capture_inbound_and_outbound() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual());
    check(
        &pod,
        &[
            // Inbound: all but the proxy's own ports and the tunnel; UDP is not captured.
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (World, Tcp, "[fd77::2]:80", "pod:15006 [fd77::2]:80"),
            (World, Tcp, "192.168.99.2:80", "pod:15006 192.168.99.2:80"),
            (World, Tcp, "192.168.77.2:15090", "pod:15090 192.168.77.2:15090"),
            (World, Tcp, "[fd77::2]:15021", "pod:15021 [fd77::2]:15021"),
            (World, Tcp, "192.168.77.2:15008", "pod:15008 192.168.77.2:15008"),
            (World, Tcp, "[fd77::2]:15008", "pod:15008 [fd77::2]:15008"),
            (World, Udp, "192.168.77.2:53", "pod:53 udp"),
            (World, Udp, "[fd77::2]:53", "pod:53 udp"),
            // Outbound from the application.
            (APP, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
            (APP, Tcp, "[2001:db8::7]:443", "pod:15001 [2001:db8::7]:443"),
            (FromPod(Owner::ROOT), Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
            (APP, Tcp, "203.0.113.7:15008", "pod:15001 203.0.113.7:15008"),
            (APP, Udp, "203.0.113.7:53", "world:53 udp"),
            (APP, Udp, "[2001:db8::7]:53", "world:53 udp"),
            // Outbound from the proxy: by its user, or by its group.
            (PROXY, Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (PROXY, Tcp, "[2001:db8::7]:80", "world:80 [2001:db8::7]:80"),
            (owned_by(1337, 1000), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (owned_by(1000, 1337), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (PROXY, Udp, "203.0.113.7:53", "world:53 udp"),
            // The application to itself, over loopback and at the pod's own address.
            (APP, Tcp, "127.0.0.1:80", "pod:80 127.0.0.1:80"),
            (APP, Tcp, "[::1]:80", "pod:80 [::1]:80"),
            (APP, Tcp, "192.168.77.2:80", "pod:80 192.168.77.2:80"),
            (APP, Tcp, "[fd77::2]:80", "pod:80 [fd77::2]:80"),
            // The proxy to its own pod: handled as inbound, except loopback and the tunnel.
            (PROXY, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (PROXY, Tcp, "[fd77::2]:80", "pod:15006 [fd77::2]:80"),
            (PROXY, Tcp, "192.168.77.2:15008", "pod:15008 192.168.77.2:15008"),
            (PROXY, Tcp, "127.0.0.1:80", "pod:80 127.0.0.1:80"),
            (PROXY, Tcp, "[::1]:80", "pod:80 [::1]:80"),
        ],
    );
}

#[test]
fn proxy_calls_application_from_its_source_address() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual());
    for (source, target) in [
        ("127.0.0.6", "192.168.77.2:80"),
        ("127.0.0.6", "127.0.0.1:80"),
        ("::6", "[fd77::2]:80"),
        ("::6", "[::1]:80"),
    ] {
        let attempt = Try { source: Some(address(source)), ..attempt(PROXY, Tcp, target) };
        assert_eq!(answers(&pod, &[attempt]), [format!("pod:80 {target}")], "from {source}");
    }
}

#[test]
fn no_flags_capture_nothing() {
    let pod = Pod::create();
    pod.init(&Settings::default());
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:80", "pod:80 192.168.77.2:80"),
            (APP, Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            // As in Istio, the proxy's calls to its own pod are still handled as inbound.
            (PROXY, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
        ],
    );
}

#[test]
fn first_address_ipv4_disables_ipv6_capture() {
    let pod = Pod::create();
    pod.init(&Settings::injected());
    check(
        &pod,
        &[
            (World, Tcp, "[fd77::2]:80", "pod:80 [fd77::2]:80"),
            (APP, Tcp, "[2001:db8::7]:80", "world:80 [2001:db8::7]:80"),
            (PROXY, Tcp, "[fd77::2]:80", "pod:80 [fd77::2]:80"),
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (APP, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
        ],
    );
}

#[test]
fn ipv6_only_pod_captures_ipv6() {
    let pod = Pod::with(Addresses::V6);
    pod.init(&Settings::injected());
    check(
        &pod,
        &[
            (World, Tcp, "[fd77::2]:80", "pod:15006 [fd77::2]:80"),
            (APP, Tcp, "[2001:db8::7]:80", "pod:15001 [2001:db8::7]:80"),
            (APP, Tcp, "127.0.0.1:80", "pod:80 127.0.0.1:80"),
        ],
    );
}

#[test]
fn p_and_z_set_the_listener_ports() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('p', "16001").with('z', "16006"));
    check(
        &pod,
        &[
            (APP, Tcp, "203.0.113.7:80", "pod:16001 203.0.113.7:80"),
            (APP, Tcp, "[fd88::1]:80", "pod:16001 [fd88::1]:80"),
            (World, Tcp, "192.168.77.2:80", "pod:16006 192.168.77.2:80"),
            (PROXY, Tcp, "[fd77::2]:80", "pod:16006 [fd77::2]:80"),
        ],
    );
}

#[test]
fn e_sets_the_tunnel_port() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('e', "15009"));
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:15009", "pod:15009 192.168.77.2:15009"),
            (World, Tcp, "[fd77::2]:15008", "pod:15006 [fd77::2]:15008"),
            (PROXY, Tcp, "192.168.77.2:15009", "pod:15009 192.168.77.2:15009"),
        ],
    );
}

#[test]
fn u_and_g_exclude_the_proxy() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('u', "1400").with('g', "2000"));
    check(
        &pod,
        &[
            (owned_by(1400, 1000), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (owned_by(1000, 2000), Tcp, "[fd88::1]:80", "world:80 [fd88::1]:80"),
            (PROXY, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
            (owned_by(1400, 1000), Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (PROXY, Tcp, "192.168.77.2:80", "pod:80 192.168.77.2:80"),
        ],
    );
}

#[test]
fn several_proxy_users_are_excluded() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('u', "1337,1400"));
    for uid in [1337, 1400] {
        check(
            &pod,
            &[
                (owned_by(uid, 1000), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
                (owned_by(uid, 1000), Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
                (owned_by(uid, 1000), Tcp, "[fd77::2]:80", "pod:15006 [fd77::2]:80"),
                (owned_by(uid, 1000), Tcp, "127.0.0.1:80", "pod:80 127.0.0.1:80"),
            ],
        );
    }
    check(&pod, &[(APP, Tcp, "192.168.77.2:80", "pod:80 192.168.77.2:80")]);
}

#[test]
fn i_sets_the_captured_ranges() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('i', "10.0.0.0/9,2001:db8::/32"));
    check(
        &pod,
        &[
            (APP, Tcp, "10.1.2.3:80", "pod:15001 10.1.2.3:80"),
            (APP, Tcp, "10.200.0.9:80", "world:80 10.200.0.9:80"),
            (APP, Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (APP, Tcp, "[2001:db8::7]:80", "pod:15001 [2001:db8::7]:80"),
            (APP, Tcp, "[fd88::1]:80", "world:80 [fd88::1]:80"),
            (APP, Tcp, "127.0.0.1:80", "pod:80 127.0.0.1:80"),
        ],
    );
    pod.init(&Settings::injected_dual().with('i', ""));
    check(
        &pod,
        &[
            (APP, Tcp, "10.1.2.3:80", "world:80 10.1.2.3:80"),
            (APP, Tcp, "[2001:db8::7]:80", "world:80 [2001:db8::7]:80"),
        ],
    );
}

#[test]
fn i_with_a_loopback_range_captures_loopback() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('i', "127.9.0.0/16"));
    check(
        &pod,
        &[
            (APP, Tcp, "127.9.0.9:80", "pod:15001 127.9.0.9:80"),
            (APP, Tcp, "127.0.0.1:80", "pod:80 127.0.0.1:80"),
            (PROXY, Tcp, "127.9.0.9:80", "pod:15006 127.9.0.9:80"),
        ],
    );
}

#[test]
fn x_excludes_ranges_despite_q_and_i() {
    let pod = Pod::create();
    let settings = Settings::injected_dual().with('x', "10.1.0.0/16,fd88::/16").with('q', "80");
    pod.init(&settings);
    check(
        &pod,
        &[
            (APP, Tcp, "10.1.2.3:80", "world:80 10.1.2.3:80"),
            (APP, Tcp, "[fd88::1]:80", "world:80 [fd88::1]:80"),
            (APP, Tcp, "10.200.0.9:80", "pod:15001 10.200.0.9:80"),
            (APP, Tcp, "[2001:db8::7]:80", "pod:15001 [2001:db8::7]:80"),
        ],
    );
}

#[test]
fn q_captures_ports_at_any_address() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('i', "").with('q', "80,8000:9000"));
    check(
        &pod,
        &[
            (APP, Tcp, "10.1.2.3:80", "pod:15001 10.1.2.3:80"),
            (APP, Tcp, "[fd88::1]:8080", "pod:15001 [fd88::1]:8080"),
            (APP, Tcp, "10.1.2.3:443", "world:443 10.1.2.3:443"),
            (APP, Udp, "10.1.2.3:80", "world:80 udp"),
        ],
    );
}

#[test]
fn o_excludes_ports_despite_other_flags() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('o', "80,8500").with('q', "80"));
    check(
        &pod,
        &[
            (APP, Tcp, "10.1.2.3:80", "world:80 10.1.2.3:80"),
            (APP, Tcp, "[fd88::1]:8500", "world:8500 [fd88::1]:8500"),
            (APP, Udp, "10.1.2.3:80", "world:80 udp"),
            (APP, Tcp, "10.1.2.3:443", "pod:15001 10.1.2.3:443"),
            (PROXY, Tcp, "192.168.77.2:80", "pod:80 192.168.77.2:80"),
        ],
    );
}

#[test]
fn b_sets_inbound_ports_and_d_excludes_some() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('b', "80,8000-9000,15008").with('d', "80"));
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (World, Tcp, "[fd77::2]:8080", "pod:15006 [fd77::2]:8080"),
            (World, Tcp, "192.168.77.2:443", "pod:443 192.168.77.2:443"),
            (World, Tcp, "192.168.77.2:15008", "pod:15008 192.168.77.2:15008"),
        ],
    );
    pod.init(&Settings::injected_dual().with('b', "*").with('d', "80, 443"));
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:80", "pod:80 192.168.77.2:80"),
            (World, Tcp, "[fd77::2]:443", "pod:443 [fd77::2]:443"),
            (World, Tcp, "192.168.77.2:15090", "pod:15006 192.168.77.2:15090"),
        ],
    );
    pod.init(&Settings::injected_dual().with('b', ""));
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:80", "pod:80 192.168.77.2:80"),
            (APP, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
        ],
    );
}

#[test]
fn c_excludes_interfaces_in_both_directions() {
    let pod = Pod::create();
    for name in ["net1", "net+"] {
        pod.init(&Settings::injected_dual().with('c', name));
        check(
            &pod,
            &[
                (World, Tcp, "192.168.99.2:80", "pod:80 192.168.99.2:80"),
                (World, Tcp, "[fd99::2]:80", "pod:80 [fd99::2]:80"),
                (APP, Tcp, "192.168.99.1:80", "world:80 192.168.99.1:80"),
                (APP, Tcp, "[fd99::1]:80", "world:80 [fd99::1]:80"),
                (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
                (APP, Tcp, "[fd77::1]:80", "pod:15001 [fd77::1]:80"),
            ],
        );
    }
}

#[test]
fn owner_groups_select_captured_traffic() {
    let pod = Pod::create();
    let group = |gid| owned_by(1000, gid);
    pod.init(&Settings::injected_dual().with_variable(GROUPS, "5000,6000"));
    check(
        &pod,
        &[
            (group(5000), Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
            (group(6000), Tcp, "[fd88::1]:80", "pod:15001 [fd88::1]:80"),
            (group(1000), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
        ],
    );
    pod.init(&Settings::injected_dual().with_variable(GROUPS_EXCLUDE, "5000"));
    check(
        &pod,
        &[
            (group(5000), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (group(1000), Tcp, "[fd88::1]:80", "pod:15001 [fd88::1]:80"),
        ],
    );
    pod.init(&Settings::injected_dual().with_variable(GROUPS, ""));
    check(
        &pod,
        &[
            (group(1000), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
        ],
    );
}

#[test]
fn loopback_range_is_not_handled_as_inbound() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual());
    check(&pod, &[(PROXY, Tcp, "127.9.0.9:80", "pod:15006 127.9.0.9:80")]);
    pod.init(&Settings::injected_dual().with_variable(LOOPBACK, "127.0.0.1/8"));
    check(&pod, &[(PROXY, Tcp, "127.9.0.9:80", "pod:80 127.9.0.9:80")]);
}

type Row<'a> = (From, Transport, &'static str, &'a str);

/// Tries each row and compares the listener and the original destination.
pub(crate) fn check(pod: &Pod, rows: &[Row<'_>]) {
    let tries: Vec<Try> = rows.iter().map(|(from, by, to, _)| attempt(*from, *by, to)).collect();
    let wrong: Vec<String> = rows
        .iter()
        .zip(answers(pod, &tries))
        .filter(|((.., expected), answer)| expected != answer)
        .map(|(row, answer)| format!("{row:?}: {answer}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn answers(pod: &Pod, tries: &[Try]) -> Vec<String> {
    let outcomes = pod.outcomes(tries).into_iter();
    outcomes
        .map(|outcome| match outcome {
            ConnectionOutcome::Answered(answer) => format!("{} {}", answer.by, answer.original),
            ConnectionOutcome::Failed(reason) => reason,
        })
        .collect()
}

pub(crate) fn attempt(from: From, transport: Transport, target: &str) -> Try {
    let target: SocketAddr = target.parse().expect("an address and a port");
    Try { from, transport, source: None, target }
}

pub(crate) const fn owned_by(uid: u32, gid: u32) -> From {
    FromPod(Owner { uid, gid })
}

pub(crate) const APP: From = owned_by(1000, 1000);
pub(crate) const PROXY: From = owned_by(1337, 1337);

const GROUPS: &str = "ISTIO_OUTBOUND_OWNER_GROUPS";
const GROUPS_EXCLUDE: &str = "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE";
const LOOPBACK: &str = "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR";
