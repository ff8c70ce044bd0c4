//! Scripts that run the programs in network namespaces.

use std::env;
use std::process::Command;
use std::time::Duration;

use e2e::programs::own_programs;
use e2e::report_files::folder;
use e2e::wait;

#[test]
fn agent_that_was_never_ready_ends_with_an_error() {
    let Some(said) = run("run-agent-exit.sh") else { return };
    assert!(said.ends_with("wait rc=1\nagent rc=1\n"), "{said}");
}

#[test]
fn dns_of_containers_behind_a_bridge_is_answered() {
    let Some(said) = run("run-dind-dns.sh") else { return };
    assert_eq!(said.matches("b'answer'").count(), 6, "{said}");
    assert!(!said.contains("NO ANSWER"), "{said}");
}

#[test]
fn packets_of_virtual_interfaces_are_explained_for_tproxy() {
    let Some(said) = run("run-tproxy-virtual-interface.sh") else { return };
    assert!(said.contains("captured: it reaches port 15001 of this pod"), "{said}");
    assert!(said.contains("--kube-virt-interfaces"), "{said}");
}

#[test]
fn foreign_rules_that_can_decide_first_are_named() {
    let Some(said) = run("run-verify-foreign.sh") else { return };
    let rules: Vec<_> = said.split("== iptables: ").skip(1).collect();
    assert_eq!(rules.len(), 2, "{said}");
    for rule in rules {
        // By verify, and by explain.
        let named = "rules of others can decide first: chain OUTPUT of table ip nat";
        assert_eq!(rule.matches(named).count(), 2, "{rule}");
        assert!(rule.contains("flows do not match the plan"), "{rule}");
    }
}

/// Runs a script where its namespaces and processes end with it. Returns its output.
fn run(script: &str) -> Option<String> {
    let script = folder(script).unwrap()?.join("toolkit").join(script);
    let own = own_programs().unwrap();
    let path = format!("{}:{}", own.display(), env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command.arg(LONGEST.as_secs().to_string());
    command.args([
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    command.args(["sh", "-ec", OWN_NAMESPACES, "sh"]).arg(&script).env("PATH", path);
    let ran = command.output().unwrap();
    let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    assert!(ran.status.success(), "{}: {}: {said}", script.display(), ran.status);
    Some(said)
}

const LONGEST: Duration = wait::TIMEOUT.saturating_mul(2);
const OWN_NAMESPACES: &str = "mkdir -p /run/netns; mount -t tmpfs tmpfs /run/netns; ip link set lo up; ip address add 192.0.2.2/32 dev lo; exec bash \"$1\" 2>&1";
