//! Repeated runs, killed runs and cleanups with the iptables backend, and after another backend.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::iptables_rules::{VARIANTS, rules};
use crate::pod::{Addresses, Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn second_run_changes_nothing() {
    for variant in VARIANTS {
        for addresses in [Addresses::V4, Addresses::Both] {
            let pod = Pod::with(addresses);
            let settings = every_kind_of_rule().by_iptables(variant);
            pod.init(&settings);
            // A handle changes if a rule is replaced.
            let once = (pod.dump(), rules(&pod, variant), nft(&pod, "-s -a list ruleset"));
            let programs = Recorder::create(variant);
            programs.run(&pod, &settings);
            let twice = (pod.dump(), rules(&pod, variant), nft(&pod, "-s -a list ruleset"));
            assert_eq!(twice, once, "{variant} {addresses:?}");
            assert!(!programs.names().contains("restore"), "{}", programs.names());
        }
    }
}

#[test]
fn clean_pod_runs_one_program_per_family() {
    for variant in VARIANTS {
        for (addresses, families) in [(Addresses::V4, 1), (Addresses::Both, 2)] {
            let pod = Pod::with(addresses);
            let programs = Recorder::create(variant);
            programs.run(&pod, &Settings::injected_dual().by_iptables(variant));
            assert_eq!(programs.names().lines().count(), families, "{}", programs.names());
        }
    }
}

#[test]
fn run_repairs_changed_rules() {
    for variant in VARIANTS {
        let pod = Pod::create();
        let settings = every_kind_of_rule().by_iptables(variant);
        pod.init(&settings);
        let planned = rules(&pod, variant);
        for change in [
            "-A ISTIO_OUTPUT -j ACCEPT",
            "-I ISTIO_OUTPUT 1 -j RETURN",
            "-D ISTIO_OUTPUT 2",
            "-F ISTIO_REDIRECT",
            "-D OUTPUT -j ISTIO_OUTPUT",
            "-A PREROUTING -p tcp -j ISTIO_INBOUND",
            "-N ISTIO_OUTPUT_DNS",
            "-F",
        ] {
            iptables(&pod, variant, &format!("-t nat {change}"));
            assert_ne!(rules(&pod, variant), planned, "{change}");
            pod.init(&settings);
            assert_eq!(rules(&pod, variant), planned, "{variant} {change}");
        }
    }
}

#[test]
fn run_with_other_flags_replaces_all_rules() {
    for variant in VARIANTS {
        let (fresh, used) = (Pod::create(), Pod::create());
        let other = Settings::injected().with('b', "80").with('i', "10.0.0.0/8");
        fresh.init(&other.clone().by_iptables(variant));
        used.init(&every_kind_of_rule().by_iptables(variant));
        used.init(&other.by_iptables(variant));
        assert_eq!(ours(&used, variant), ours(&fresh, variant));
    }
}

#[test]
fn foreign_rules_survive_runs_and_cleanup() {
    for variant in VARIANTS {
        let pod = Pod::create();
        for rule in [
            "-t nat -N OTHERS",
            "-t nat -A OTHERS -p tcp --dport 1 -j REDIRECT --to-ports 2",
            "-t nat -A OUTPUT -o net1 -j RETURN",
            "-t nat -A PREROUTING -p tcp -m comment --comment others -j OTHERS",
            "-t mangle -A OUTPUT -p tcp --dport 1 -j MARK --set-mark 7",
            "-t filter -A INPUT -p tcp --dport 3 -j DROP",
        ] {
            iptables(&pod, variant, rule);
        }
        let before = rules(&pod, variant);
        pod.init(&every_kind_of_rule().by_iptables(variant));
        let without_ours: String = rules(&pod, variant)
            .lines()
            .filter(|line| !(line.contains("ISTIO_") || line.contains("\"istio-init ")))
            .map(|line| line.to_owned() + "\n")
            .collect();
        assert!(without_ours.starts_with(&before.split(":PREROUTING").next().unwrap().to_owned()));
        for line in before.lines().filter(|line| line.starts_with("-A ")) {
            assert!(without_ours.contains(line), "{line}");
        }
        clean_up(&pod);
        let v4_before: Vec<&str> = before.lines().filter(|line| line.starts_with("-A ")).collect();
        let after = rules(&pod, variant);
        let v4_after: Vec<&str> = after.lines().filter(|line| line.starts_with("-A ")).collect();
        assert_eq!(v4_after, v4_before);
    }
}

#[test]
fn cleanup_restores_the_namespace() {
    for variant in VARIANTS {
        for settings in [Settings::injected(), every_kind_of_rule(), Settings::default()] {
            let pod = Pod::create();
            let before = pod.dump();
            pod.init(&settings.clone().by_iptables(variant));
            for _ in 0..2 {
                clean_up(&pod);
                assert_eq!(pod.dump(), before, "{variant} {settings:?}");
                // The kernel keeps legacy tables, but they are empty.
                assert_eq!(ours(&pod, "legacy"), "");
            }
        }
    }
}

#[test]
fn next_run_repairs_one_killed_between_families() {
    for variant in VARIANTS {
        let (fresh, pod) = (Pod::create(), Pod::create());
        let [old, new] = [Settings::injected_dual(), every_kind_of_rule()];
        let [old, new] = [old, new].map(|settings| settings.by_iptables(variant));
        fresh.init(&new);
        pod.init(&old);
        let programs = Recorder::create(variant);
        programs.replace(&format!("ip6tables-{variant}-restore"), "kill -9 $PPID");
        let killed = programs.try_run(&pod, &new);
        assert!(!killed.status.success());
        assert_ne!(rules(&pod, variant), rules(&fresh, variant));
        pod.init(&new);
        assert_eq!(rules(&pod, variant), rules(&fresh, variant));
    }
}

#[test]
fn dry_cleanup_prints_the_removal() {
    let settings = every_kind_of_rule().with('m', "TPROXY");
    for settings in [
        settings.clone(),
        settings.clone().by_iptables("nft"),
        settings.clone().by_iptables("legacy"),
    ] {
        let pod = Pod::create();
        // A foreign table is kept, with the kernel's chains.
        for chain in ["OUTPUT", "PREROUTING"] {
            iptables(&pod, "nft", &format!("-t nat -A {chain} -p tcp --dport 99 -j RETURN"));
        }
        let before = pod.dump();
        pod.init(&settings);
        let installed = (pod.dump(), ours(&pod, "legacy"));
        let mut command = istio_init();
        command.args(["cleanup", "--dry-run"]).env("PATH", SEARCH_PATH);
        let script = pod.namespace.output(&mut command, "").expect("a script");
        assert_eq!((pod.dump(), ours(&pod, "legacy")), installed, "a dry run changes nothing");
        carry_out(&pod, &script);
        assert_eq!(pod.dump(), before, "{script}");
        assert_eq!(ours(&pod, "legacy"), "", "{script}");
        let nothing = pod.namespace.output(&mut command, "").expect("a script");
        assert_eq!(nothing, "# no rules of an earlier run are installed\n");
    }
}

/// Runs a script: nft commands first, then commands in comments, and texts for the programs that
/// comments name.
fn carry_out(pod: &Pod, script: &str) {
    let mut parts: Vec<(String, String)> = vec![("nft -f -".to_owned(), String::new())];
    for line in script.lines() {
        if let Some(command) = line.strip_prefix("# also run: ") {
            parts.push((command.to_owned(), String::new()));
        } else if let Some(program) = line.strip_prefix("# ") {
            parts.push((program.to_owned(), String::new()));
        } else if let Some((_, text)) = parts.last_mut() {
            text.extend([line, "\n"]);
        }
    }
    for (command, text) in parts {
        let mut words = command.split(' ');
        let mut program = Command::new(words.next().unwrap_or_default());
        pod.namespace.output(program.args(words), &text).expect(&command);
    }
}

#[test]
fn iptables_error_names_rule_and_flag() {
    let pod = Pod::create();
    let programs = Recorder::create("nft");
    programs.replace(
        "iptables-nft-restore",
        "echo 'Warning: Extension owner revision 0 not supported, missing kernel module?' >&2\n\
         echo 'iptables-restore v1.8.9 (nf_tables): ' >&2\n\
         echo 'line 18: RULE_APPEND failed (No such file or directory): rule in chain ISTIO_OUTPUT' >&2\n\
         exit 4",
    );
    let output = programs.try_run(&pod, &Settings::injected().by_iptables("nft"));
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @r"
    error: iptables-nft-restore rejects `-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN` (from --proxy-uid): Warning: Extension owner revision 0 not supported, missing kernel module?; line 18: RULE_APPEND failed (No such file or directory): rule in chain ISTIO_OUTPUT
      hint: the kernel has no match by owner (module xt_owner); load it on the node
    ");
}

#[test]
fn failed_listing_shows_the_error_of_iptables() {
    let pod = Pod::create();
    let settings = Settings::injected().by_iptables("nft");
    pod.init(&settings);
    let programs = Recorder::create("nft");
    let message = "iptables v1.8.9 (nf_tables): table nat is incompatible, use nft tool.";
    programs.replace("iptables-nft", &format!("echo '{message}' >&2\nexit 1"));
    let output = programs.try_run(&pod, &settings.with('x', "10.0.0.0/8"));
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr), @"error: `iptables-nft -t nat -S` fails: table nat is incompatible, use nft tool.");
}

#[test]
fn cleanup_reports_failed_listing_and_removes_the_rest() {
    let pod = Pod::create();
    pod.init(&every_kind_of_rule().by_iptables("legacy"));
    let programs = Recorder::create("legacy");
    programs.replace("iptables-legacy", "kill -9 $$");
    let output = programs.clean_up(&pod);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = "error: IPv4: iptables-legacy has tables (nat), and `iptables-legacy \
                -t nat -S` fails: signal: 9 (SIGKILL)";
    assert!(stderr.contains(expected), "{stderr}");
    let mut v6 = Command::new("ip6tables-legacy-save");
    let left = pod.namespace.output(&mut v6, "").expect("the rules of IPv6");
    assert!(!left.contains("ISTIO_") && !left.contains("istio-init"), "{left}");
    clean_up(&pod);
    assert_eq!(ours(&pod, "legacy"), "");
}

/// Jumps to own chains are listed last, so a killed program has not listed them.
#[test]
fn truncated_listing_is_repeated() {
    for variant in VARIANTS {
        let (fresh, pod) = (Pod::create(), Pod::create());
        let [old, new] = [Settings::injected_dual(), every_kind_of_rule()];
        let [old, new] = [old.with('c', "net1"), new].map(|one| one.by_iptables(variant));
        fresh.init(&new);
        pod.init(&old);
        let programs = Recorder::create(variant);
        let program = format!("iptables-{variant}");
        let is_first = format!("[ $(/usr/bin/grep -c '^{program}$' $LOG) = 1 ]");
        let listing = format!("/usr/sbin/{program} \"$@\"");
        let script = format!("{is_first} && {listing} | /usr/bin/head -n 8 || {listing}");
        programs.replace(&program, &script);
        programs.run(&pod, &new);
        assert_eq!(rules(&pod, variant), rules(&fresh, variant));
        if variant == "legacy" {
            fs::remove_file(programs.folder.path().join("log")).unwrap();
            assert!(programs.clean_up(&pod).status.success());
            assert_eq!(ours(&pod, variant), "");
        }
    }
}

/// Wrappers of the iptables programs that record their names.
pub(crate) struct Recorder {
    pub(crate) folder: TempDir,
}

impl Recorder {
    pub(crate) fn create(variant: &str) -> Self {
        let recorder = Self { folder: TempDir::new().unwrap() };
        for family in ["iptables", "ip6tables"] {
            for name in [format!("{family}-{variant}"), format!("{family}-{variant}-restore")] {
                recorder.replace(&name, &format!("exec /usr/sbin/{name} \"$@\""));
            }
        }
        recorder
    }

    pub(crate) fn replace(&self, name: &str, script: &str) {
        let path = self.folder.path().join(name);
        let log = self.folder.path().join("log").display().to_string();
        let script = format!("#!/bin/sh\nLOG={log}\necho {name} >>$LOG\n{script}\n");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn try_run(&self, pod: &Pod, settings: &Settings) -> Output {
        let mut command = istio_init();
        command.args(settings.command_line()).envs(settings.environment());
        command.env("PATH", self.folder.path());
        pod.namespace.run(|| command.output()).unwrap().unwrap()
    }

    pub(crate) fn clean_up(&self, pod: &Pod) -> Output {
        let mut command = istio_init();
        command.arg("--cleanup-only").env("PATH", self.folder.path());
        pod.namespace.run(|| command.output()).unwrap().unwrap()
    }

    pub(crate) fn run(&self, pod: &Pod, settings: &Settings) {
        let output = self.try_run(pod, settings);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn names(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// Rules in own chains and in the kernel's, in both families.
pub(crate) fn every_kind_of_rule() -> Settings {
    Settings::injected_dual()
        .with('c', "net1,tap+")
        .with('o', "3306,8000:9000")
        .with('x', "10.1.2.3/9,fd88::/16")
        .with('q', "443")
        .with_variable("ISTIO_OUTBOUND_OWNER_GROUPS", "5000,6000")
}

/// Returns the rules of one variant that this program installed, judged by their text.
pub(crate) fn ours(pod: &Pod, variant: &str) -> String {
    let rules = rules(pod, variant);
    let of_us = |line: &&str| line.contains("ISTIO_") || line.contains("istio-init");
    rules.lines().filter(of_us).map(|line| line.to_owned() + "\n").collect()
}

fn clean_up(pod: &Pod) {
    let mut command = istio_init();
    command.arg("--cleanup-only").env("PATH", SEARCH_PATH);
    pod.namespace.output(&mut command, "").expect("a cleanup");
}

pub(crate) fn iptables(pod: &Pod, variant: &str, words: &str) -> String {
    let mut command = Command::new(format!("iptables-{variant}"));
    pod.namespace.output(command.args(words.split_whitespace()), "").expect(words)
}

pub(crate) fn nft(pod: &Pod, words: &str) -> String {
    let mut command = Command::new("nft");
    pod.namespace.output(command.args(words.split_whitespace()), "").expect(words)
}
