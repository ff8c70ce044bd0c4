//! Runs killed at the start and at the end of every system call.

use std::process::Command;

use crate::flags::{APP, PROXY, attempt};
use crate::iptables_rules::{VARIANTS, rules};
use crate::pod::From::World;
use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};
use e2e::sockets::ConnectionOutcome;
use e2e::sockets::Transport::{Tcp, Udp};
use e2e::tracer::{self, End, Victims};

#[test]
fn first_run_survives_a_kill_at_any_point() {
    killed_everywhere(None, Some(&redirection()));
}

#[test]
fn replacing_run_survives_a_kill_at_any_point() {
    killed_everywhere(Some(&redirection()), Some(&tproxy()));
    killed_everywhere(Some(&tproxy()), Some(&redirection()));
}

#[test]
fn cleanup_survives_a_kill_at_any_point() {
    killed_everywhere(Some(&tproxy()), None);
}

#[test]
fn iptables_run_survives_a_kill_with_its_children() {
    for variant in VARIANTS {
        killed_in_places(variant, Victims::All);
    }
}

#[test]
fn iptables_run_survives_a_kill_without_its_children() {
    for variant in VARIANTS {
        killed_in_places(variant, Victims::Program);
    }
}

#[test]
fn iptables_run_survives_killed_children() {
    for variant in VARIANTS {
        killed_in_places(variant, Victims::Child);
    }
}

/// nftables: the rules are the old ones or the new ones, by the kernel's dump and by observed
/// packets. The next run repairs address and routes.
fn killed_everywhere(old: Option<&Settings>, new: Option<&Settings>) {
    let pod = Pod::create();
    let settle = |settings: Option<&Settings>| match settings {
        Some(settings) => drop(pod.init(settings)),
        None => clean_up(&pod),
    };
    let [old_state, new_state] = [old, new].map(|settings| {
        settle(settings);
        PodState::from_pod(&pod)
    });
    assert_ne!(old_state.kernel.rules, new_state.kernel.rules);
    assert_ne!(old_state.fates, new_state.fates);
    settle(old);
    let (mut kept, mut replaced) = (0, 0);
    // The fate of packets is the same in equal states.
    let mut known = vec![];
    for stop in 1.. {
        if let End::Exited { code, .. } = run(&pod, new, Some((stop, Victims::Program))) {
            assert_eq!(code, 0);
            break;
        }
        let kernel = KernelState::from_pod(&pod);
        let is_old = kernel.rules == old_state.kernel.rules;
        if is_old {
            kept += 1;
        } else {
            replaced += 1;
        }
        if !known.contains(&kernel) {
            let state = PodState { fates: fates(&pod), kernel: kernel.clone() };
            let expected = if is_old { &old_state } else { &new_state };
            let rules = &state.kernel.rules;
            assert_eq!(rules, &expected.kernel.rules, "stop {stop}: neither the old nor the new");
            assert_eq!(state.fates, expected.fates, "stop {stop}");
            for line in &expected.kernel.beside {
                assert!(state.kernel.beside.contains(line), "stop {stop}: {line} is missing");
            }
            let asked_for = [&old_state.kernel.beside[..], &new_state.kernel.beside].concat();
            for line in &state.kernel.beside {
                assert!(asked_for.contains(line), "stop {stop}: unexpected {line}");
            }
            for (settings, whole) in [(old, &old_state), (new, &new_state)] {
                let Some(settings) = settings else { continue };
                let verified = verify(&pod, settings);
                let same_rules = state.kernel.rules == whole.kernel.rules;
                assert!(verified == 3 || same_rules, "stop {stop}: verify sees no difference");
                let found = whole.difference(&state);
                assert!(verified == 0 || !found.is_empty(), "stop {stop}: verify sees one");
            }
            known.push(kernel.clone());
            settle(new);
            let left = new_state.difference(&PodState::from_pod(&pod));
            assert!(left.is_empty(), "the next run does not mend what stop {stop} left:\n{left}");
            settle(old);
        } else if kernel != old_state.kernel {
            settle(old);
        }
    }
    assert!(kept > 0 && replaced > 0, "{kept} kept, {replaced} replaced");
}

/// iptables: the next run leaves exactly the state that it leaves without the killed one.
fn killed_in_places(variant: &'static str, victims: Victims) {
    let [old, new] = [redirection(), tproxy()].map(|settings| settings.by_iptables(variant));
    for (old, new) in [(None, Some(&new)), (Some(&old), Some(&new)), (Some(&new), None)] {
        let pod = Pod::create();
        let settle = |settings: Option<&Settings>| match settings {
            Some(settings) => drop(pod.init(settings)),
            None => clean_up(&pod),
        };
        let rules = || without_empty_tables(&(rules(&pod, "nft") + &rules(&pod, "legacy")));
        let whole = || {
            let state = PodState::from_pod(&pod);
            PodState { kernel: KernelState { rules: rules(), ..state.kernel }, ..state }
        };
        settle(new);
        let planned = whole();
        settle(old);
        let End::Exited { code: 0, stops, .. } = run(&pod, new, None) else {
            panic!("a run fails")
        };
        assert_eq!(planned.difference(&whole()), "", "a traced run is as any");
        for place in 0..PLACES {
            settle(old);
            // A different system call in each test, not only those that load the programs.
            let stop = 1 + (stops * (2 * place + 1)) / (2 * PLACES);
            match run(&pod, new, Some((stop, victims))) {
                End::Killed => {}
                End::Exited { code, stderr, .. } if victims == Victims::Child => {
                    assert!(code == 0 || code == 1, "exit code {code} after a killed child");
                    let missed = planned.difference(&whole());
                    let is_told = code == 1 || missed.is_empty() || stderr.contains("warning: ");
                    assert!(is_told, "{variant}, stop {stop} of {stops}: {stderr}\n{missed}");
                }
                // Threads and processes interleave, so the number of stops varies.
                End::Exited { code, .. } => assert_eq!(code, 0),
            }
            settle(new);
            let left = planned.difference(&whole());
            assert!(left.is_empty(), "{variant}, {victims:?}, stop {stop} of {stops}:\n{left}");
            if let Some(settings) = new {
                assert_eq!(verify(&pod, settings), 0, "{variant}, stop {stop}");
            }
        }
    }
}

/// State that a run can change, and the observed packets.
#[derive(Debug, PartialEq, Eq)]
struct PodState {
    kernel: KernelState,
    fates: Vec<ConnectionOutcome>,
}

/// Kernel state that a run can change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KernelState {
    rules: String,
    /// Addresses, policy rules and routes.
    beside: Vec<String>,
}

impl KernelState {
    fn from_pod(pod: &Pod) -> Self {
        let script = "nft -s list ruleset; echo BESIDE; \
                      ip -o address; ip rule; ip -6 rule; ip route show table all";
        let mut shell = Command::new("sh");
        let listed = pod.namespace.output(shell.args(["-c", script]), "").expect(script);
        let (rules, beside) = listed.split_once("BESIDE\n").expect("two parts");
        let without_lifetime = |line: &str| line.split("valid_lft").next().unwrap().to_owned();
        // The kernel adds this route some time after the address.
        let beside = beside.lines().filter(|line| !line.starts_with("local ::6 "));
        Self { rules: rules.to_owned(), beside: beside.map(without_lifetime).collect() }
    }
}

fn fates(pod: &Pod) -> Vec<ConnectionOutcome> {
    pod.outcomes(&[
        attempt(APP, Tcp, "203.0.113.7:80"),
        attempt(APP, Tcp, "[2001:db8::7]:443"),
        attempt(APP, Udp, "10.1.2.3:53"),
        attempt(PROXY, Tcp, "203.0.113.7:80"),
        attempt(World, Tcp, "192.168.77.2:80"),
        attempt(World, Tcp, "[fd77::2]:9080"),
    ])
}

impl PodState {
    fn from_pod(pod: &Pod) -> Self {
        Self { kernel: KernelState::from_pod(pod), fates: fates(pod) }
    }

    /// Returns the lines that only one side has; empty if both are equal.
    fn difference(&self, other: &Self) -> String {
        let (this, other) = (format!("{self:#?}"), format!("{other:#?}"));
        let [this, other] = [this, other].map(|text| text.replace("\\n", "\n"));
        let only = |sign: &'static str, one: &str, other: &str| -> String {
            let lines = one.lines().filter(|line| !other.lines().any(|same| same == *line));
            lines.flat_map(|line| [sign, " ", line.trim(), "\n"]).collect()
        };
        let lines = only("-", &this, &other) + &only("+", &other, &this);
        let first = this.lines().zip(other.lines()).find(|(this, other)| this != other);
        match first {
            Some((this, other)) if lines.is_empty() => {
                format!("{this}\nwhere the other has{other}")
            }
            _ => lines,
        }
    }
}

/// Returns the created rules and chains from the output of iptables-save. The kernel and iptables
/// create the rest.
fn without_empty_tables(saved: &str) -> String {
    let is_made = |line: &&str| !(line.ends_with(" ACCEPT") || *line == "COMMIT");
    let lines: Vec<&str> = saved.lines().filter(is_made).collect();
    let is_empty = |index: usize| {
        let next = lines.get(index + 1);
        lines[index].starts_with('*') && next.is_none_or(|next| next.starts_with('*'))
    };
    let kept = (0..lines.len()).filter(|index| !is_empty(*index));
    kept.map(|index| lines[index].to_owned() + "\n").collect()
}

/// Returns settings with rules of one table.
fn redirection() -> Settings {
    Settings::injected_dual().with('p', "16001").with('z', "16006")
}

/// Returns settings with rules of three tables, and routes.
fn tproxy() -> Settings {
    Settings::injected_dual()
        .with('m', "TPROXY")
        .with('c', "net1")
        .with_switch("--redirect-dns")
        .with_switch("--capture-all-dns")
}

fn run(pod: &Pod, settings: Option<&Settings>, death: Option<(usize, Victims)>) -> End {
    let mut command = istio_init();
    match settings {
        Some(settings) => command.args(settings.command_line()).envs(settings.environment()),
        None => command.arg("--cleanup-only").env("PATH", SEARCH_PATH),
    };
    pod.namespace.run(|| tracer::run(&command, death)).expect("a thread in a namespace")
}

fn verify(pod: &Pod, settings: &Settings) -> i32 {
    let mut command = istio_init();
    // The program's name in Istio is first.
    command.arg("verify").args(&settings.command_line()[1..]).envs(settings.environment());
    let output = pod.namespace.run(|| command.output()).unwrap().unwrap();
    output.status.code().expect("an exit code")
}

fn clean_up(pod: &Pod) {
    let mut command = istio_init();
    command.arg("--cleanup-only").env("PATH", SEARCH_PATH);
    pod.namespace.output(&mut command, "").expect("a cleanup");
}

const PLACES: usize = 5;
