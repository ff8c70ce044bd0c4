//! Scripts of `--dry-run`: nft accepts them, and they install the same rules as the program.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::netns::Namespace;

use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn nft_loads_every_script_of_the_snapshots() {
    let namespace = Namespace::create().expect("a namespace");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../istio-init/tests/snapshots");
    let mut loaded = 0;
    for entry in fs::read_dir(&folder).expect("the goldens of istio-init") {
        let path = entry.expect("a golden").path();
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).expect("a golden");
        // A snapshot is the script after a header between two lines of dashes.
        let script = text.splitn(3, "---\n").last().expect("a script");
        if name.contains("__plans@") {
            let mut nft = Command::new("nft");
            namespace.output(nft.args(["-c", "-f", "-"]), script).expect(&name);
            loaded += 1;
        }
    }
    assert!(loaded > 10, "only {loaded} goldens found in {}", folder.display());
}

#[test]
fn nft_script_installs_the_same_rules() {
    for settings in [
        Settings::default(),
        Settings::injected(),
        Settings::injected_dual(),
        Settings::injected_dual()
            .with('u', "1337,1400")
            .with('b', "80,8000:9000")
            .with('c', "net1,eth+")
            .with('i', "10.1.2.3/9,127.0.0.1/32,fd00::/17,::/0")
            .with('x', "0.0.0.0/0,fd88::1/128")
            .with('q', "443,9000-9100")
            .with('o', "53,3300:3310")
            .with_variable("ISTIO_OUTBOUND_OWNER_GROUPS", "5000,6000"),
    ] {
        let (by_program, by_script) = (Pod::create(), Pod::create());
        by_program.init(&settings);
        let before = by_script.dump();
        let script = by_script.init(&settings.clone().dry_run());
        assert_eq!(by_script.dump(), before, "a dry run changes nothing");
        let mut nft = Command::new("nft");
        by_script.namespace.output(nft.args(["-f", "-"]), &script).expect(&script);
        assert_eq!(ruleset(&by_script), ruleset(&by_program), "{settings:?}");
    }
}

#[test]
fn dry_run_prints_for_the_backend_of_a_run() {
    let pod = Pod::create();
    let run = |path: &str, switch: &str| {
        let mut command = istio_init();
        command.args(["-i", "*", "-b", "*", switch]).env("PATH", path);
        pod.namespace.output(&mut command, "").expect("istio-init")
    };
    let (by_iptables, by_nft) = (run(SEARCH_PATH, "--dry-run"), run("/nonexistent", "--dry-run"));
    let mut restore = Command::new("iptables-restore");
    let text = by_iptables.as_str();
    pod.namespace.output(restore.args(["--test", "--noflush"]), text).expect(text);
    let mut nft = Command::new("nft");
    pod.namespace.output(nft.args(["-c", "-f", "-"]), &by_nft).expect(&by_nft);
    run(SEARCH_PATH, "--backend=auto");
    assert!(ruleset(&pod).contains("ISTIO_OUTPUT"), "a run takes iptables here");
}

#[test]
fn cleanup_script_removes_the_rules() {
    let pod = Pod::create();
    let before = ruleset(&pod);
    pod.init(&Settings::injected_dual());
    let mut dry_run = istio_init();
    let script =
        pod.namespace.output(dry_run.args(["--cleanup-only", "-n"]), "").expect("a script");
    assert_ne!(ruleset(&pod), before, "a dry run changes nothing");
    let mut nft = Command::new("nft");
    pod.namespace.output(nft.args(["-f", "-"]), &script).expect(&script);
    assert_eq!(ruleset(&pod), before);
}

fn ruleset(pod: &Pod) -> String {
    let mut nft = Command::new("nft");
    pod.namespace.output(nft.args(["-s", "list", "ruleset"]), "").expect("the ruleset")
}
