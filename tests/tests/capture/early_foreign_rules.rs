//! Rules of others that decide before own ones: `verify` and `explain --from-kernel` name their chains.

use std::process::Command;

use e2e::netns::Namespace;

use crate::verify_and_probe::{ask, ask_anything, is_by_schema, namespace};

#[test]
fn foreign_chains_that_decide_first_are_named() {
    for (variant, backend) in BACKENDS {
        for (command, direction, chain) in DECIDING {
            let pod = namespace();
            run(&pod, command);
            ask_anything(&pod, &backend, FLAGS, 0);
            let line = format!("rules of others can decide first: {chain}\n");
            let verified = ask_anything(&pod, &["verify"], FLAGS, 0);
            let is_named = verified.contains(&line);
            // In another chain, an accepted packet still passes own rules.
            let ends_own_chain = !command.ends_with("ACCEPT") || variant == "iptables-nft";
            assert_eq!(is_named, ends_own_chain, "{variant}: {command}: {verified}");
            assert!(verified.starts_with("installed as planned"), "{variant}: {verified}");
            let question = format!("--from-kernel --direction {direction} {PACKET}");
            let words: Vec<&str> = ["explain"].into_iter().chain(question.split(' ')).collect();
            let explained = ask_anything(&pod, &words, "", 0);
            let is_of_family = chain.contains(" ip ") || chain.contains(" inet ");
            assert_eq!(explained.contains(&line), is_named && is_of_family, "{explained}");
        }
    }
}

#[test]
fn other_foreign_chains_are_not_named() {
    for (variant, backend) in BACKENDS {
        let pod = namespace();
        for command in HARMLESS {
            run(&pod, command);
        }
        ask_anything(&pod, &backend, FLAGS, 0);
        if variant != "nftables" {
            let after = format!("{variant} -t nat -A OUTPUT -p tcp -j ACCEPT");
            run(&pod, &after);
        }
        let verified = ask_anything(&pod, &["verify"], FLAGS, 0);
        assert!(!verified.contains("rules of others"), "{variant}: {verified}");
        let explained = ask_anything(&pod, &EXPLAIN, "", 0);
        assert!(!explained.contains("rules of others"), "{variant}: {explained}");
    }
}

/// Such a rule looked like an excluded interface.
#[test]
fn foreign_rule_is_not_taken_for_an_own_one() {
    let pod = namespace();
    run(&pod, "iptables-nft -t nat -A OUTPUT -p tcp -j ACCEPT");
    ask_anything(&pod, &["--force-iptables-binary=nft"], FLAGS, 0);
    let explained = ask_anything(&pod, &EXPLAIN, "", 0);
    assert!(!explained.contains("--istio-exclude-interfaces"), "{explained}");
    assert!(explained.contains("foreign rule left out: IPv4: -A OUTPUT -p tcp -j ACCEPT"));
}

#[test]
fn named_chains_match_the_published_schema() {
    let pod = namespace();
    run(
        &pod,
        "nft add table inet theirs { chain out { type nat hook output priority -110; tcp dport 80 redirect to :9; }; }",
    );
    ask_anything(&pod, &["--backend=nftables"], FLAGS, 0);
    let verified = ask(&pod, &["verify", "-o", "json"], FLAGS);
    is_by_schema("verify", &verified);
    let explained = ask(&pod, &[&EXPLAIN[..], &["-o", "json"]].concat(), "");
    is_by_schema("explain", &explained);
    for answer in [verified, explained] {
        let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).expect("JSON");
        let named = serde_json::json!([
            {"owner": "nftables", "family": "inet", "table": "theirs", "chain": "out"}
        ]);
        assert_eq!(answer["othersFirst"], named);
    }
}

fn run(pod: &Namespace, command: &str) {
    let mut words = command.split(' ');
    let mut program = Command::new(words.next().expect("a program"));
    pod.output(program.args(words), "").expect(command);
}

const FLAGS: &str = "-i * -b * --dual-stack";
const PACKET: &str = "--to 10.9.9.9:80";
const EXPLAIN: [&str; 6] = ["explain", "--from-kernel", "--uid", "1000", "--to", "10.9.9.9:80"];

const BACKENDS: [(&str, [&str; 1]); 3] = [
    ("nftables", ["--backend=nftables"]),
    ("iptables-nft", ["--force-iptables-binary=nft"]),
    ("iptables-legacy", ["--force-iptables-binary=legacy"]),
];

/// Commands, the direction of packets that their rules see, and the chains.
const DECIDING: [(&str, &str, &str); 8] = [
    (
        "iptables-nft -t nat -A OUTPUT -p tcp -j ACCEPT",
        "out",
        "chain OUTPUT of table ip nat (iptables-nft, priority -100)",
    ),
    (
        "iptables-nft -t nat -A OUTPUT -p tcp -d 10.0.0.0/8 -j DNAT --to-destination 10.1.1.1:99",
        "out",
        "chain OUTPUT of table ip nat (iptables-nft, priority -100)",
    ),
    (
        "iptables-legacy -t nat -A PREROUTING -p tcp -j REDIRECT --to-ports 9",
        "in",
        "chain PREROUTING of table ip nat (iptables-legacy, priority -100)",
    ),
    (
        "nft add table inet theirs { chain out { type nat hook output priority -110; tcp dport 80 redirect to :9; }; }",
        "out",
        "chain out of table inet theirs (nftables, priority -110)",
    ),
    (
        "nft add table ip6 theirs { chain in { type nat hook prerouting priority -100; tcp dport 80 redirect to :9; }; }",
        "in",
        "chain in of table ip6 theirs (nftables, priority -100)",
    ),
    (
        "iptables-nft -t raw -A OUTPUT -p tcp -j CT --notrack",
        "out",
        "chain OUTPUT of table ip raw (iptables-nft, priority -300)",
    ),
    (
        "iptables-nft -t mangle -A PREROUTING -p tcp -j TPROXY --on-port 9 --tproxy-mark 1",
        "in",
        "chain PREROUTING of table ip mangle (iptables-nft, priority -150)",
    ),
    (
        "nft add table ip theirs { chain out { type filter hook output priority -150; policy drop; }; }",
        "out",
        "chain out of table ip theirs (nftables, priority -150)",
    ),
];

const HARMLESS: [&str; 7] = [
    "iptables-nft -t nat -A POSTROUTING -j MASQUERADE",
    "iptables-nft -t nat -N OTHERS",
    "iptables-nft -t nat -A OUTPUT -p tcp -j OTHERS",
    "iptables-nft -t filter -A OUTPUT -p tcp --dport 9 -j DROP",
    "iptables-nft -t mangle -A OUTPUT -p tcp --dport 9 -j MARK --set-mark 7",
    "iptables-nft -t raw -A OUTPUT -p udp --dport 9 -j CT --zone 3",
    "nft add table inet theirs { chain in { type nat hook prerouting priority -90; tcp dport 9 redirect to :8; }; }",
];
