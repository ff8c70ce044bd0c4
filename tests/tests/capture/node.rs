//! Rejection of a node's network namespace.

use std::process::Command;

use e2e::sockets::Transport::Tcp;

use crate::flags::{APP, check};
use crate::pod::{Pod, istio_init};
use crate::settings::Settings;

#[test]
fn node_network_is_rejected_unless_allowed() {
    let pod = Pod::create();
    pod.namespace.ip("link add cni0 type bridge").unwrap();
    pod.namespace.ip("link add veth1a2b type bridge").unwrap();
    let before = pod.dump();
    let refusal = pod.try_init(&Settings::injected()).unwrap_err().to_string();
    assert!(refusal.contains("interface cni0, interface veth1a2b"), "{refusal}");
    assert!(refusal.contains("--allow-host-network"), "{refusal}");
    assert_eq!(pod.dump(), before);
    // Subcommands that change nothing work, and a dry run warns.
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
fn node_is_recognised_by_its_chains() {
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
        // An interface that the user names is one of the pod's networks.
        pod.init(&Settings::injected().with('c', "veth1a2b"));
    }
}

#[test]
fn pod_with_one_sign_of_a_node_is_accepted() {
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

/// The flags capture nothing, so the machine is safe if the run is not rejected.
#[test]
fn first_network_namespace_is_rejected() {
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    // Fixed since Linux 6.18; before, the first number.
    let is_first = ["net:[4026531833]", "net:[4026531840]"].iter().any(|n| own.as_os_str() == *n);
    let run = |word: &str| istio_init().args(["--backend=nftables", word]).output().unwrap();
    let stderr = String::from_utf8_lossy(&run("--dry-run").stderr).into_owned();
    assert_eq!(stderr.contains("the machine's first network namespace"), is_first, "{stderr}");
    if is_first {
        assert_eq!(run("--ip-families=v4").status.code(), Some(1));
    }
}

#[test]
fn process_1_of_a_container_does_not_make_a_node() {
    let pod = Pod::create();
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc"]).arg(istio_init().get_program());
    unshare.args(Settings::injected().command_line());
    pod.namespace.output(&mut unshare, "").expect("istio-init");
}

#[test]
fn pod_with_own_links_and_chains_is_accepted() {
    let pod = Pod::create();
    // As with a virtual machine in a pod, or with Docker.
    pod.namespace.ip("link add k6t-eth0 type bridge").unwrap();
    pod.namespace.ip("link set net1 master k6t-eth0").unwrap();
    let commands = "add table ip nat; add chain ip nat DOCKER_OUTPUT; add table ip filter";
    pod.namespace.output(Command::new("nft").arg(commands), "").expect(commands);
    pod.init(&Settings::injected());
}
