//! Connections during changes: while rules are replaced, repaired or kept.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use e2e::sockets::ConnectionOutcome;
use e2e::sockets::Transport::{Tcp, Udp};

use crate::flags::{APP, PROXY, attempt};
use crate::iptables_rules::VARIANTS;
use crate::pod::{From, Pod, istio_init};
use crate::settings::Settings;

#[test]
fn no_connection_escapes_a_run_with_other_flags() {
    for [one, other] in pairs() {
        let pod = Pod::create();
        pod.init(&other);
        pod.init(&one);
        all_fare_the_same(&pod, || {
            pod.init(&other);
            pod.init(&one);
        });
    }
}

#[test]
fn no_connection_escapes_a_run_with_nothing_to_change() {
    for [settings, _] in pairs() {
        let pod = Pod::create();
        pod.init(&settings);
        all_fare_the_same(&pod, || drop(pod.init(&settings)));
    }
}

/// A table created again would let a packet pass the old chain and the new one; with TPROXY the new
/// one would save the mark set by the old one.
#[test]
fn no_connection_escapes_a_repair() {
    for [settings, _] in pairs() {
        let pod = Pod::create();
        pod.init(&settings);
        all_fare_the_same(&pod, || {
            let mut nft = Command::new("nft");
            nft.args("insert rule inet istio-proxy-nat istio-output tcp dport 99 drop".split(' '));
            pod.namespace.output(&mut nft, "").expect("a foreign rule");
            let mut reconcile = istio_init();
            reconcile.args(["verify", "--reconcile"]).args(&settings.command_line()[1..]);
            pod.namespace.output(&mut reconcile, "").expect("a repair");
        });
    }
}

/// iptables-restore commits a table atomically: if one table captures, no connection escapes.
#[test]
fn no_connection_escapes_a_run_by_iptables() {
    for variant in VARIANTS {
        let [one, other] = pairs()[0].clone().map(|settings| settings.by_iptables(variant));
        let pod = Pod::create();
        pod.init(&other);
        pod.init(&one);
        all_fare_the_same(&pod, || {
            pod.init(&other);
            pod.init(&one);
            pod.init(&one);
        });
    }
}

/// The second backend's rules are installed before the first one's are removed.
#[test]
fn no_connection_escapes_a_change_of_the_backend() {
    let settings = Settings::injected_dual();
    for variant in VARIANTS {
        let by_iptables = settings.clone().by_iptables(variant);
        let with_programs = settings.clone().with_variable("PATH", crate::settings::SEARCH_PATH);
        let pod = Pod::create();
        pod.init(&by_iptables);
        all_fare_the_same(&pod, || {
            pod.init(&with_programs);
            pod.init(&by_iptables);
        });
    }
}

/// Pairs of settings with equal effect on the tried connections.
fn pairs() -> [[Settings; 2]; 2] {
    let dual = Settings::injected_dual;
    let tproxy = || dual().with('m', "TPROXY").with_switch("--redirect-dns");
    let tproxy = || tproxy().with_switch("--capture-all-dns");
    let more = |settings: Settings| settings.with('o', "9443").with('x', "172.16.0.0/12");
    [[dual(), more(dual())], [tproxy(), more(tproxy()).with('t', "1400").with('r', "140")]]
}

/// Makes connections of every kind while the work is repeated; each has the same outcome as before.
fn all_fare_the_same(pod: &Pod, work: impl Fn()) {
    let tries = [
        attempt(APP, Tcp, "203.0.113.7:80"),
        attempt(APP, Tcp, "[2001:db8::7]:443"),
        attempt(APP, Udp, "10.1.2.3:53"),
        // A different target than the application's: connection tracking remembers ports of
        // finished connections and their redirection.
        attempt(PROXY, Tcp, "10.200.0.9:8080"),
        attempt(From::World, Tcp, "192.168.77.2:80"),
        attempt(From::World, Tcp, "[fd77::2]:9080"),
    ];
    let before = pod.outcomes(&tries);
    let done = AtomicBool::new(false);
    let seen: Vec<BTreeMap<ConnectionOutcome, usize>> = thread::scope(|scope| {
        let clients: Vec<_> = tries
            .iter()
            .map(|attempt| {
                let done = &done;
                scope.spawn(move || pod.repeat(attempt, || !done.load(Ordering::Relaxed)))
            })
            .collect();
        for _ in 0..REPETITIONS {
            work();
        }
        done.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    for ((attempt, before), seen) in tries.iter().zip(before).zip(seen) {
        assert!(seen.values().sum::<usize>() >= REPETITIONS, "{attempt:?}: {seen:?}");
        let alike: Vec<&ConnectionOutcome> = seen.keys().collect();
        assert_eq!(alike, [&before], "{attempt:?}: {seen:?}");
    }
}

const REPETITIONS: usize = 8;
