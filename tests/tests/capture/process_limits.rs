//! Runs at a limit of processes and threads: of a user, and of a pod.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use e2e::skipped_tests;
use tempfile::TempDir;

use crate::iptables_lifecycle::{Recorder, ours};
use crate::lifecycle::Alone;
use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn auto_uses_nftables_at_a_process_limit() {
    let expected = Pod::create();
    expected.init(&settings());
    // A pod without rules needs the installing program; one with rules first needs the listing one.
    for earlier in [None, Some(Settings::injected())] {
        let pod = Pod::create();
        if let Some(earlier) = earlier {
            pod.init(&earlier.by_iptables("nft"));
        }
        let Some(cgroup) = Cgroup::create(1) else { return };
        let output = cgroup.run(&pod, &settings().with_switch("--backend=auto"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let warning = "warning: nftables is used in place of iptables: cannot run iptables-nft";
        assert!(stderr.starts_with(warning), "{stderr}");
        assert_eq!(pod.ruleset(), expected.ruleset());
    }
}

#[test]
fn iptables_names_the_process_limit() {
    for variant in ["nft", "legacy"] {
        for earlier in [false, true] {
            let pod = Pod::create();
            if earlier {
                pod.init(&Settings::injected().by_iptables(variant));
            }
            let before = (pod.dump(), ours(&pod, variant));
            let Some(cgroup) = Cgroup::create(1) else { return };
            let output = cgroup.run(&pod, &settings().by_iptables(variant));
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(stderr.contains("hint: no more processes can be started"), "{stderr}");
            assert_eq!((pod.dump(), ours(&pod, variant)), before);
        }
    }
}

/// The program for IPv4 lowers the limit, so the one for IPv6 cannot start.
#[test]
fn partial_iptables_run_is_undone_or_reported() {
    for (variant, is_undone) in [("nft", true), ("legacy", false)] {
        let (pod, expected) = (Pod::create(), Pod::create());
        expected.init(&settings());
        let Some(cgroup) = Cgroup::create(8) else { return };
        let programs = Recorder::create(variant);
        let name = format!("iptables-{variant}-restore");
        let limit = cgroup.folder.join("pids.max");
        let script = format!("echo 1 >{}\nexec /usr/sbin/{name} \"$@\"", limit.display());
        programs.replace(&name, &script);
        let settings = settings().with_switch("--backend=auto");
        let settings = settings.with_variable("PATH", programs.folder.path().to_str().unwrap());
        let output = cgroup.run(&pod, &settings);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_undone, "{variant}: {stderr}");
        if is_undone {
            assert_eq!(pod.ruleset(), expected.ruleset());
        } else {
            let expected =
                "error: the rules of IPv4 are installed, and the others are not: cannot run";
            assert!(stderr.starts_with(expected), "{stderr}");
            assert_eq!(pod.ruleset(), Pod::create().ruleset());
        }
    }
}

#[test]
fn validation_without_threads_tries_own_flows() {
    let pod = Pod::create();
    let settings = settings().with('p', "25001").with('z', "25006");
    let Some(cgroup) = Cgroup::create(1) else { return };
    let output = cgroup.run(&pod, &settings.with_switch("--run-validation"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("validation passed") && !stderr.contains(" 0 not tried"), "{stderr}");
}

/// A user namespace does not lift the limit of the outer user.
#[test]
fn user_limit_applies_in_a_user_namespace() {
    let program = Alone::create();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=61337", "--regid=61337", "--clear-groups", "unshare", "-Urn"]);
    // This user namespace maps no other user.
    command.args(["prlimit", "--nproc=1"]).arg(program.path());
    command.args(["--ip-families=v4", "--proxy-uid=0", "--proxy-gid=0"]);
    let output = command.env_clear().env("PATH", SEARCH_PATH).output().expect("setpriv");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let warning = "warning: nftables is used in place of iptables: cannot run iptables-nft";
    assert!(stderr.starts_with(warning), "{stderr}");
}

#[test]
fn failed_run_leaves_no_route_or_address() {
    for variant in ["nft", "legacy"] {
        let pod = Pod::create();
        let programs = Recorder::create(variant);
        programs.replace(&format!("iptables-{variant}-restore"), "exit 1");
        let tproxy = settings().with('m', "TPROXY").by_iptables(variant);
        let fails = |settings: &Settings| {
            let output = programs.try_run(&pod, settings);
            assert_eq!(output.status.code(), Some(1));
        };
        let clean = pod.dump();
        fails(&tproxy);
        assert_eq!(pod.dump(), clean, "{variant}");
        // The rules of the earlier run are installed and need their routes.
        pod.init(&tproxy);
        let installed = (pod.dump(), ours(&pod, variant));
        fails(&tproxy.clone().with('t', "1400").with('r', "140").with('b', "80"));
        assert_eq!((pod.dump(), ours(&pod, variant)), installed, "{variant}");
    }
}

fn settings() -> Settings {
    Settings::injected_dual().with_variable("PATH", SEARCH_PATH)
}

/// A cgroup with a limit of processes, like a pod's; removed when dropped.
struct Cgroup {
    folder: PathBuf,
    _name: TempDir,
}

impl Cgroup {
    /// `None` in a user namespace, where cgroups belong to the machine's root; the test is left
    /// out.
    fn create(most: u32) -> Option<Self> {
        let unified = Path::new("/sys/fs/cgroup");
        let separate = unified.join("pids");
        let parent = if separate.exists() { &*separate } else { unified };
        if parent == unified {
            // systemd has enabled it already.
            let _ = fs::write(unified.join("cgroup.subtree_control"), "+pids");
        }
        // A unique name.
        let name = TempDir::with_prefix("outrigger-pids-").unwrap();
        let folder = parent.join(name.path().file_name().unwrap());
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let reason = format!("not root: {}: {error}", folder.parent().unwrap().display());
                skipped_tests::record("tests of a pod's limit of processes", &reason).unwrap();
                return None;
            }
            created => created.expect("a cgroup"),
        }
        fs::write(folder.join("pids.max"), most.to_string()).expect("the limit of processes");
        Some(Self { folder, _name: name })
    }

    fn run(&self, pod: &Pod, settings: &Settings) -> Output {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
        command.arg(self.folder.join("cgroup.procs")).arg(istio_init().get_program());
        command.args(settings.command_line()).env_clear().envs(settings.environment());
        pod.namespace.run(|| command.output()).unwrap().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A panic here would hide the test's own.
        let _ = fs::remove_dir(&self.folder);
    }
}
