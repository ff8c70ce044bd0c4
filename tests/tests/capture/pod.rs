//! Fixture of a pod: a network namespace, linked to another one that represents the outside.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use e2e::conntrack::forget_connections;
use e2e::netns::{Namespace, Owner};
use e2e::programs::Programs;
use e2e::sockets::{ConnectionOutcome, Listeners, Transport, reach};
use e2e::wait::until;

use crate::istio;
use crate::settings::Settings;

/// A pod and its outside.
pub(crate) struct Pod {
    // Listeners are dropped before their namespaces.
    _listeners: [Listeners; 2],
    pub(crate) namespace: Namespace,
    pub(crate) world: Namespace,
    addresses: Addresses,
}

/// Address families of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    V4,
    V6,
    Both,
}

/// A connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Try {
    pub(crate) from: From,
    pub(crate) transport: Transport,
    pub(crate) source: Option<IpAddr>,
    pub(crate) target: SocketAddr,
}

/// Origin of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum From {
    /// A process of this owner in the pod.
    Pod(Owner),
    /// Outside.
    World,
}

impl Pod {
    /// Creates a pod with both families that listens on all [`PORTS`], like the outside.
    pub(crate) fn create() -> Self {
        Self::with(Addresses::Both)
    }

    pub(crate) fn with(addresses: Addresses) -> Self {
        let namespace = Namespace::create().expect("a namespace for the pod");
        let world = Namespace::create().expect("a namespace for the world");
        namespace.connect("eth0", &world, "eth0").expect("a first link");
        namespace.connect("net1", &world, "net1").expect("a second link");
        for (pod_commands, world_commands) in match addresses {
            Addresses::V4 => &[V4][..],
            Addresses::V6 => &[V6],
            Addresses::Both => &[V4, V6],
        } {
            namespace.ip(pod_commands).expect("addresses of the pod");
            world.ip(world_commands).expect("addresses of the world");
        }
        let listeners = [("pod", &namespace), ("world", &world)]
            .map(|(who, namespace)| Listeners::start(namespace, who, PORTS).expect("listeners"));
        let pod = Self { _listeners: listeners, namespace, world, addresses };
        pod.wait_for_links();
        pod
    }

    /// Runs the program, which must succeed, and returns its output.
    pub(crate) fn init(&self, settings: &Settings) -> String {
        self.try_init(settings).expect("istio-init")
    }

    pub(crate) fn try_init(&self, settings: &Settings) -> anyhow::Result<String> {
        init_in(&self.namespace, settings)
    }

    /// Installs Istio's rules by iptables, and its address and routes.
    pub(crate) fn istio(&self, settings: &Settings) {
        let load = |program: &str, ipv6: bool| {
            let text = istio::restore_text(settings, ipv6);
            let mut command = Command::new(program);
            self.namespace.output(command.arg("--noflush"), &text).expect(&text);
        };
        load("iptables-restore", false);
        let captures_v6 = match self.addresses {
            Addresses::V4 => false,
            Addresses::V6 => true,
            Addresses::Both => settings.dual_stack,
        };
        self.istio_routes(settings, captures_v6);
        if captures_v6 {
            load("ip6tables-restore", true);
            self.namespace.ip("address add ::6/128 dev lo nodad").expect("the address ::6");
        }
    }

    /// Removes the state that [`Pod::istio`] installs; Istio leaves some of it.
    pub(crate) fn forget_istio(&self, settings: &Settings) {
        let (mark, table) = (settings.flag('t'), settings.flag('r'));
        for command in [
            "nft flush ruleset".to_owned(),
            "ip -6 address delete ::6/128 dev lo".to_owned(),
            format!("ip -4 rule delete fwmark {mark} lookup {table}"),
            format!("ip -6 rule delete fwmark {mark} lookup {table}"),
            format!("ip -4 route flush table {table}"),
            format!("ip -6 route flush table {table}"),
        ] {
            let mut words = command.split(' ');
            let mut command = Command::new(words.next().expect("a program"));
            // Absent objects need no removal.
            let _ = self.namespace.output(command.args(words), "");
        }
    }

    /// Adds Istio's routes for TPROXY.
    fn istio_routes(&self, settings: &Settings, captures_v6: bool) {
        if settings.flag('m') != "TPROXY" || settings.flag('b').is_empty() {
            return;
        }
        let (mark, table) = (settings.flag('t'), settings.flag('r'));
        let families = if captures_v6 { &["-4", "-6"][..] } else { &["-4"] };
        for family in families {
            for words in [
                format!("{family} rule add fwmark {mark} lookup {table}"),
                format!("{family} route add local default dev lo table {table}"),
            ] {
                let mut command = Command::new("ip");
                command.args(words.split(' '));
                self.namespace.output(&mut command, "").expect(&words);
            }
        }
    }

    /// Returns the outcome of each attempt.
    pub(crate) fn outcomes(&self, tries: &[Try]) -> Vec<ConnectionOutcome> {
        // One thread per series of attempts from the same origin.
        tries
            .chunk_by(|one, next| one.from == next.from)
            .flat_map(|series| {
                let reach_all = || {
                    let reach = |t: &Try| reach(t.transport, t.source, t.target);
                    series.iter().map(reach).collect::<Vec<_>>()
                };
                let outcomes = match series[0].from {
                    From::Pod(owner) => self.namespace.run_as(owner, reach_all),
                    From::World => self.world.run(reach_all),
                };
                outcomes.expect("a thread in a namespace")
            })
            .collect()
    }

    /// Repeats attempts and returns their outcomes.
    pub(crate) fn repeat(
        &self,
        attempt: &Try,
        goes_on: impl Fn() -> bool + Send + Sync,
    ) -> BTreeMap<ConnectionOutcome, usize> {
        let repeat = || {
            let mut outcomes = BTreeMap::new();
            while goes_on() {
                let outcome = reach(attempt.transport, attempt.source, attempt.target);
                *outcomes.entry(outcome).or_default() += 1;
            }
            outcomes
        };
        let outcomes = match attempt.from {
            From::Pod(owner) => self.namespace.run_as(owner, repeat),
            From::World => self.world.run(repeat),
        };
        outcomes.expect("a thread in a namespace")
    }

    /// Returns all state that the program can leave behind.
    pub(crate) fn dump(&self) -> String {
        let list = |program: &str, arguments: &[&str]| {
            self.namespace.output(Command::new(program).args(arguments), "").expect(program)
        };
        // The kernel first checks a new IPv6 address for duplicates, and then adds its route.
        let settled = || {
            let addresses = list("ip", &["-o", "address"]);
            if addresses.contains("tentative") { Err(addresses) } else { Ok(addresses) }
        };
        let addresses = until("the addresses are settled", settled).expect("addresses");
        let rules = list("ip", &["rule"]) + &list("ip", &["-6", "rule"]);
        // The kernel adds the local route some time after the address.
        let routes = list("ip", &["route", "show", "table", "all"]);
        let routes = routes.lines().filter(|line| !line.starts_with("local ::6 "));
        let routes: String = routes.map(|line| line.to_owned() + "\n").collect();
        self.ruleset() + &without_lifetimes(&addresses) + &rules + &routes
    }

    /// Returns outcomes in a pod that had other rules before. Repeats unexpected ones: connection
    /// tracking can take a connection for an earlier one from the same port, with that one's
    /// original destination.
    pub(crate) fn outcomes_afresh(
        &self,
        tries: &[Try],
        is_expected: impl Fn(usize, &ConnectionOutcome) -> bool,
    ) -> Vec<ConnectionOutcome> {
        self.forget_connections();
        let mut outcomes = self.outcomes(tries);
        let is_odd = |place: &usize| !is_expected(*place, &outcomes[*place]);
        let odd: Vec<usize> = (0..tries.len()).filter(is_odd).collect();
        if !odd.is_empty() {
            self.forget_connections();
            let again: Vec<Try> = odd.iter().map(|place| tries[*place]).collect();
            for (place, outcome) in odd.into_iter().zip(self.outcomes(&again)) {
                outcomes[place] = outcome;
            }
        }
        outcomes
    }

    fn forget_connections(&self) {
        for end in [&self.namespace, &self.world] {
            end.run(forget_connections).and_then(|done| done).expect("connections go");
        }
    }

    /// Returns all nftables tables without packet counters.
    pub(crate) fn ruleset(&self) -> String {
        let mut nft = Command::new("nft");
        without_counts(&self.namespace.output(nft.args(["list", "ruleset"]), "").expect("nft"))
    }

    /// Waits for the links, whose queues open some time after they are up, with a TCP connection.
    fn wait_for_links(&self) {
        let neighbours = [("192.168.77.1", Addresses::V4), ("192.168.99.1", Addresses::V4)]
            .into_iter()
            .chain([("fd77::1", Addresses::V6), ("fd99::1", Addresses::V6)]);
        for (neighbour, family) in neighbours {
            if self.addresses != Addresses::Both && self.addresses != family {
                continue;
            }
            let target = SocketAddr::new(address(neighbour), 80);
            let from = From::Pod(Owner::ROOT);
            let attempt = Try { from, transport: Transport::Tcp, source: None, target };
            let answered = (0..5)
                .any(|_| matches!(self.outcomes(&[attempt])[..], [ConnectionOutcome::Answered(_)]));
            assert!(answered, "{neighbour} does not answer");
        }
    }
}

/// Returns a command for `istio-init` with an empty environment: the one in `ISTIO_INIT_BIN`, or that of
/// this repository.
pub(crate) fn istio_init() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let named = || std::env::var_os("ISTIO_INIT_BIN").map(PathBuf::from);
    let program = PROGRAM.get_or_init(|| named().unwrap_or_else(|| own_program("istio-init")));
    assert!(program.exists(), "ISTIO_INIT_BIN: {} is missing", program.display());
    let mut command = Command::new(program);
    command.env_clear();
    command
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns one of this repository's programs.
pub(crate) fn own_program(name: &str) -> PathBuf {
    Programs::find().and_then(|programs| programs.own(name)).expect("a program of this repository")
}

fn without_counts(ruleset: &str) -> String {
    let mut words = ruleset.split(' ').peekable();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        kept.push(word);
        if word == "packets" || word == "bytes" {
            words.next();
        }
    }
    kept.join(" ")
}

fn without_lifetimes(addresses: &str) -> String {
    let before = |line: &str| line.split("valid_lft").next().unwrap_or_default().to_owned() + "\n";
    addresses.lines().map(before).collect()
}

/// Runs the program in a namespace and returns its output.
pub(crate) fn init_in(namespace: &Namespace, settings: &Settings) -> anyhow::Result<String> {
    let Some(servers) = settings.name_servers() else {
        let mut command = istio_init();
        command.args(settings.command_line()).envs(settings.environment());
        return namespace.output(&mut command, "");
    };
    // Only the program sees the pod's resolv.conf.
    let lines: Vec<String> =
        servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), lines.concat())?;
    let program = istio_init();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", WITH_RESOLV_CONF]).arg(file.path());
    command.arg(program.get_program()).args(settings.command_line());
    namespace.output(command.envs(settings.environment()), "")
}

const WITH_RESOLV_CONF: &str = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";

/// The pod is `.2` on both links, the outside is `.1` and all other addresses.
const V4: (&str, &str) = (
    "address add 192.168.77.2/24 dev eth0
     address add 192.168.99.2/24 dev net1
     route add default via 192.168.77.1",
    "address add 192.168.77.1/24 dev eth0
     address add 192.168.99.1/24 dev net1
     address add 10.1.2.3/32 dev lo
     address add 10.200.0.9/32 dev lo
     address add 203.0.113.7/32 dev lo",
);
const V6: (&str, &str) = (
    "address add fe80::2/64 dev eth0 nodad
     address add fe80::2/64 dev net1 nodad
     address add fd77::2/64 dev eth0 nodad
     address add fd99::2/64 dev net1 nodad
     route add default via fd77::1",
    "address add fe80::1/64 dev eth0 nodad
     address add fe80::1/64 dev net1 nodad
     address add fd77::1/64 dev eth0 nodad
     address add fd99::1/64 dev net1 nodad
     address add fd88::1/128 dev lo nodad
     address add 2001:db8::7/128 dev lo nodad",
);

/// Ports on which the pod and the world listen.
pub(crate) const PORTS: &[u16] = &[
    53, 80, 443, 8080, 8500, 9080, 15001, 15006, 15008, 15009, 15020, 15021, 15053, 15090, 16001,
    16006,
];
