//! Foreign rules of every kind, which no run may change.

use std::process::Command;

use crate::iptables_rules::VARIANTS;
use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn foreign_rules_are_not_changed() {
    for backend in ["nftables", "nft", "legacy"] {
        let pod = Pod::create();
        others_arrive(&pod);
        let theirs = ForeignRules::from_pod(&pod);
        let whole = pod.dump();
        let check = |step: &str| {
            let now = ForeignRules::from_pod(&pod);
            for (before, now) in theirs.lists.iter().zip(&now.lists) {
                assert_eq!(now, before, "{backend}: {step}");
            }
            // Each foreign rule has its handle, which changes if the rule is created again.
            let mut now = now.rules.iter();
            for rule in &theirs.rules {
                assert!(now.any(|other| other == rule), "{backend}: {step}: {rule} is not there");
            }
        };
        let by = |settings: Settings| match backend {
            "nftables" => settings.with_variable("PATH", SEARCH_PATH),
            variant => settings.by_iptables(variant),
        };
        let settings = [redirection(), tproxy(), redirection()].map(by);
        for settings in &settings {
            for _ in 0..2 {
                pod.init(settings);
                check(&format!("a run with {settings:?}"));
            }
            drift(&pod, backend);
            check("a change of our rules");
            let mut reconcile = istio_init();
            reconcile.args(["verify", "--reconcile"]).args(&settings.command_line()[1..]);
            reconcile.envs(settings.environment());
            pod.namespace.output(&mut reconcile, "").expect("a repair");
            check("a repair");
        }
        let mut cleanup = istio_init();
        cleanup.arg("--cleanup-only").env("PATH", SEARCH_PATH);
        pod.namespace.output(&mut cleanup, "").expect("a cleanup");
        check("a cleanup");
        assert_eq!(pod.dump(), whole, "{backend}: a cleanup leaves something");
    }
}

/// Adds tables, chains and rules of every program, at all hooks that own rules use.
fn others_arrive(pod: &Pod) {
    let mut nft = Command::new("nft");
    pod.namespace.output(nft.args(["-f", "-"]), NFT).expect("tables of nft");
    for variant in VARIANTS {
        for family in ["iptables", "ip6tables"] {
            let mut restore = Command::new(format!("{family}-{variant}-restore"));
            pod.namespace.output(&mut restore, IPTABLES).expect("rules of iptables");
        }
    }
    pod.namespace.ip(ROUTES).expect("rules and routes");
    for words in
        ["-6 rule add priority 15006 fwmark 0x539 lookup 134", "-6 rule add priority 90 lookup 97"]
    {
        let mut ip = Command::new("ip");
        pod.namespace.output(ip.args(words.split(' ')), "").expect(words);
    }
}

/// Removes an own rule.
fn drift(pod: &Pod, backend: &str) {
    let words = match backend {
        "nftables" => "nft flush chain inet istio-proxy-nat istio-redirect".to_owned(),
        variant => format!("iptables-{variant} -t nat -F ISTIO_REDIRECT"),
    };
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    pod.namespace.output(command.args(words), "").expect("a change");
}

/// Foreign rules, as the programs list them.
struct ForeignRules {
    lists: Vec<String>,
    /// Lines of all nftables tables, including those of iptables.
    rules: Vec<String>,
}

impl ForeignRules {
    fn from_pod(pod: &Pod) -> Self {
        let list = |line: &str| {
            let mut words = line.split(' ');
            let mut command = Command::new(words.next().expect("a program"));
            pod.namespace.output(command.args(words), "").expect(line)
        };
        let ruleset = list("nft -a -s list ruleset");
        let mut lists = vec![without_shared_tables(&ruleset)];
        for variant in VARIANTS {
            for family in ["iptables", "ip6tables"] {
                lists.push(without_ours(&list(&format!("{family}-{variant}-save"))));
            }
        }
        for of_ip in ["rule", "-6 rule", "route show table all", "-o address"] {
            lists.push(without_ours(&list(&format!("ip {of_ip}"))));
        }
        Self { lists, rules: ruleset.lines().map(str::to_owned).collect() }
    }
}

fn without_ours(text: &str) -> String {
    let is_ours = |line: &str| {
        ["ISTIO_", "istio-init", "proto 136", "::6 ", "::6/128", "# "]
            .iter()
            .any(|sign| line.contains(sign))
    };
    // Counters and timeouts change.
    let fixed = |line: &str| {
        let line = line.split("valid_lft").next().unwrap_or_default();
        line.split(" [").next().unwrap_or_default().to_owned() + "\n"
    };
    text.lines().filter(|line| !is_ours(line)).map(fixed).collect()
}

/// Removes tables of iptables, which its own programs list, and own tables.
fn without_shared_tables(ruleset: &str) -> String {
    let of_iptables = |name: &str| ["nat", "mangle", "raw", "filter"].contains(&name);
    let is_theirs = |table: &&str| {
        let words: Vec<&str> = table.split_whitespace().take(2).collect();
        match words[..] {
            ["ip" | "ip6", name] => !of_iptables(name),
            ["inet", name] => !name.starts_with("istio-proxy-"),
            _ => true,
        }
    };
    ruleset.split("table ").skip(1).filter(is_theirs).collect()
}

fn redirection() -> Settings {
    Settings::injected_dual().with('c', "net1").with('o', "3306").with('x', "10.1.0.0/16")
}

fn tproxy() -> Settings {
    Settings::injected_dual()
        .with('m', "TPROXY")
        .with('k', "tap0")
        .with_switch("--redirect-dns")
        .with_switch("--capture-all-dns")
        .with_switch("--drop-invalid")
}

const NFT: &str = "
table inet theirs {
    set hosts {
        type ipv4_addr
        flags interval
        elements = { 10.99.0.0/16, 10.100.0.1 }
    }
    chain output { type nat hook output priority -110; ip daddr 10.98.0.1 dnat ip to 10.98.0.2; }
    chain prerouting { type nat hook prerouting priority -90; tcp dport 7 redirect to :8; }
    chain mangle { type route hook output priority -150; ip daddr @hosts meta mark set 7; }
    chain raw { type filter hook prerouting priority -300; udp dport 9 notrack; }
    chain istio-output { tcp dport 9 return; }
}
table ip istio-proxy-nat {
    chain output { type nat hook output priority -100; tcp dport 9 return; }
}
table ip6 theirs {
    chain input { type filter hook input priority 0; policy accept; tcp dport 9 drop; }
}
";

const IPTABLES: &str = "*nat
:OTHERS - [0:0]
:ISTIO-LIKE - [0:0]
-A OTHERS -p tcp --dport 1 -j REDIRECT --to-ports 2
-A PREROUTING -p tcp -m comment --comment \"others: ours\" -j OTHERS
-A OUTPUT -o net1 -j RETURN
-A OUTPUT -p tcp --dport 11 -j OTHERS
-A POSTROUTING -o net1 -p tcp --dport 12 -j MASQUERADE
COMMIT
*mangle
:OTHERS - [0:0]
-A PREROUTING -i net1 -j RETURN
-A OUTPUT -p tcp --dport 1 -j MARK --set-mark 7
-A OUTPUT -p tcp -m mark --mark 1337 -j OTHERS
COMMIT
*raw
-A PREROUTING -p udp --dport 9 -j CT --notrack
-A OUTPUT -p udp --dport 9 -j CT --notrack
COMMIT
*filter
:OTHERS - [0:0]
:FORWARD DROP [0:0]
-A INPUT -p tcp --dport 3 -j DROP
-A OTHERS -j RETURN
COMMIT
";

/// Routes in own tables and in others.
const ROUTES: &str = "rule add priority 100 from 10.97.0.0/16 lookup 97
     rule add priority 15006 fwmark 0x539 lookup 134
     rule add priority 15006 fwmark 0x7 lookup 133
     route add 10.97.0.0/16 dev eth0 table 97
     route add 10.96.0.0/16 dev eth0 table 133
     route add 10.94.0.0/16 dev eth0
     address add 10.95.0.1/32 dev lo
     address add fd95::1/128 dev lo nodad";
