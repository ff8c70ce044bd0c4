//! Effects of TPROXY, DNS capture and settings beyond Istio's on packets.

use std::net::SocketAddr;
use std::process::Command;

use e2e::netns::Owner;
use e2e::sockets::Transport::{Tcp, Udp};
use e2e::sockets::{Outcome, reach_in_the_name_of};

use crate::flags::{APP, PROXY, check, owned_by};
use crate::pod::From::World;
use crate::pod::{Addresses, Pod, istio_init};
use crate::settings::Settings;

#[test]
fn tproxy_keeps_the_clients_address_and_leaves_the_tunnel_alone() {
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

#[test]
fn the_proxy_calls_the_application_in_the_clients_name() {
    let pod = Pod::create();
    pod.init(&Settings::injected_dual().with('m', "TPROXY").with('t', "1400").with('r', "140"));
    for (client, target) in
        [("203.0.113.7:40000", "192.168.77.2:80"), ("[2001:db8::7]:40000", "[fd77::2]:80")]
    {
        let client: SocketAddr = client.parse().unwrap();
        let target: SocketAddr = target.parse().unwrap();
        let call = || reach_in_the_name_of(client, 1400, target);
        let outcome = pod.namespace.run_as(Owner { uid: 0, gid: 1337 }, call).unwrap();
        let Outcome::Answered(answer) = outcome else { panic!("{client}: {outcome:?}") };
        assert_eq!((answer.by.as_str(), answer.client), ("pod:80", client.ip().to_string()));
    }
}

#[test]
fn routes_of_tproxy_are_added_once_and_removed() {
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

#[test]
fn dns_goes_to_the_proxy_and_the_proxys_own_to_the_servers() {
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
fn a_pod_whose_servers_are_of_the_other_family_captures_no_dns() {
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
fn what_arrives_at_a_virtual_interface_is_outbound() {
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
fn users_are_left_alone_by_range_port_and_protocol() {
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
fn families_are_captured_as_they_are_chosen() {
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
fn a_nodes_network_is_left_alone_unless_that_is_meant() {
    let pod = Pod::create();
    pod.namespace.ip("link add cni0 type bridge").unwrap();
    pod.namespace.ip("link add veth1a2b type bridge").unwrap();
    let before = pod.dump();
    let refusal = pod.try_init(&Settings::injected()).unwrap_err().to_string();
    assert!(refusal.contains("interface cni0, interface veth1a2b"), "{refusal}");
    assert!(refusal.contains("--allow-host-network"), "{refusal}");
    assert_eq!(pod.dump(), before);
    // Queries change nothing, and a dry run predicts the result of the run.
    let words = |words: &[&str]| {
        let mut command = istio_init();
        pod.namespace.run(|| command.args(words).output()).unwrap().unwrap()
    };
    assert!(words(&["plan", "-i", "*"]).status.success());
    let dry_run = words(&["--dry-run", "-i", "*"]);
    let stderr = String::from_utf8_lossy(&dry_run.stderr);
    assert!(dry_run.status.success() && stderr.contains("a run would be rejected"), "{stderr}");
    assert_eq!(words(&["verify", "--reconcile"]).status.code(), Some(1));
    assert_eq!(pod.dump(), before);
    pod.init(&Settings::injected().with_switch("--allow-host-network"));
    check(&pod, &[(APP, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80")]);
}

#[test]
fn a_node_without_such_links_is_told_by_its_chains() {
    for (commands, sign) in [
        ("add table ip kube-proxy; add chain ip kube-proxy services", "table kube-proxy"),
        ("add table ip nat; add chain ip nat KUBE-SERVICES", "chain KUBE-SERVICES"),
        ("add table ip6 filter; add chain ip6 filter cali-FORWARD", "chain cali-FORWARD"),
    ] {
        let pod = Pod::create();
        pod.namespace.output(Command::new("nft").arg(commands), "").expect(commands);
        pod.namespace.ip("link add veth1a2b type bridge").unwrap();
        let before = pod.dump();
        let refusal = pod.try_init(&Settings::injected()).unwrap_err().to_string();
        assert!(refusal.contains(sign) && refusal.contains("--allow-host-network"), "{refusal}");
        assert_eq!(pod.dump(), before);
        // The link is one of the pod's networks if the user names it.
        pod.init(&Settings::injected().with('c', "veth1a2b"));
    }
}

#[test]
fn one_sign_of_a_node_is_a_pods() {
    for commands in
        ["link add veth1 type bridge\nlink add veth2 type bridge", "link add cni0 type bridge"]
    {
        let pod = Pod::create();
        pod.namespace.ip(commands).unwrap();
        pod.init(&Settings::injected());
    }
    let pod = Pod::create();
    let commands = "add table ip nat; add chain ip nat KUBE-SERVICES";
    pod.namespace.output(Command::new("nft").arg(commands), "").expect(commands);
    pod.init(&Settings::injected());
}

/// Flags that capture nothing: if the run is not rejected by mistake, the machine still works.
#[test]
fn the_machines_first_namespace_is_left_alone() {
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    // Fixed in Linux 6.18; the first of all numbers before.
    let is_first = ["net:[4026531833]", "net:[4026531840]"].iter().any(|n| own.as_os_str() == *n);
    let run = |word: &str| istio_init().args(["--backend=nftables", word]).output().unwrap();
    let stderr = String::from_utf8_lossy(&run("--dry-run").stderr).into_owned();
    assert_eq!(stderr.contains("the machine's first network namespace"), is_first, "{stderr}");
    if is_first {
        assert_eq!(run("--ip-families=v4").status.code(), Some(1));
    }
}

#[test]
fn process_1_of_a_container_does_not_make_it_a_node() {
    let pod = Pod::create();
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc"]).arg(istio_init().get_program());
    unshare.args(Settings::injected().command_line());
    pod.namespace.output(&mut unshare, "").expect("istio-init");
}

#[test]
fn a_pod_with_links_and_chains_of_its_own_is_none() {
    let pod = Pod::create();
    // Like a virtual machine in a pod, and a container of Docker.
    pod.namespace.ip("link add k6t-eth0 type bridge").unwrap();
    pod.namespace.ip("link set net1 master k6t-eth0").unwrap();
    let commands = "add table ip nat; add chain ip nat DOCKER_OUTPUT; add table ip filter";
    pod.namespace.output(Command::new("nft").arg(commands), "").expect(commands);
    pod.init(&Settings::injected());
}

#[test]
fn rules_are_left_to_somebody_else() {
    let pod = Pod::create();
    let before = pod.dump();
    pod.init(&Settings::injected_dual().with('m', "TPROXY").with_switch("--skip-rule-apply"));
    assert_eq!(pod.dump(), before);
}
