//! Runs that may start no process and no thread, because of the limit of a user's processes or that
//! of a pod's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::iptables_lifecycle::{Recorder, ours};
use crate::lifecycle::Alone;
use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn auto_takes_nftables_where_no_process_can_be_started() {
    let expected = Pod::create();
    expected.init(&settings());
    // A pod without rules needs the program that installs them. A pod with rules first needs the
    // one that lists them.
    for earlier in [None, Some(Settings::injected())] {
        let pod = Pod::create();
        if let Some(earlier) = earlier {
            pod.init(&earlier.by_iptables("nft"));
        }
        let output = Cgroup::create(1).run(&pod, &settings().with_switch("--backend=auto"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let warning = "warning: nftables is used in place of iptables: cannot run iptables-nft";
        assert!(stderr.starts_with(warning), "{stderr}");
        assert_eq!(pod.ruleset(), expected.ruleset());
    }
}

#[test]
fn iptables_without_processes_says_which_limit() {
    for variant in ["nft", "legacy"] {
        for earlier in [false, true] {
            let pod = Pod::create();
            if earlier {
                pod.init(&Settings::injected().by_iptables(variant));
            }
            let before = (pod.dump(), ours(&pod, variant));
            let output = Cgroup::create(1).run(&pod, &settings().by_iptables(variant));
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(stderr.contains("hint: no more processes can be started"), "{stderr}");
            assert_eq!((pod.dump(), ours(&pod, variant)), before);
        }
    }
}

/// The program for IPv4 lowers the limit, so that the one for IPv6 cannot start.
#[test]
fn what_iptables_has_half_done_is_undone_or_told() {
    for (variant, is_undone) in [("nft", true), ("legacy", false)] {
        let (pod, expected) = (Pod::create(), Pod::create());
        expected.init(&settings());
        let cgroup = Cgroup::create(8);
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
            let told = "error: the rules of IPv4 are installed, and the others are not: cannot run";
            assert!(stderr.starts_with(told), "{stderr}");
            assert_eq!(pod.ruleset(), Pod::create().ruleset());
        }
    }
}

#[test]
fn a_validation_without_threads_tries_what_it_can() {
    let pod = Pod::create();
    let settings = settings().with('p', "25001").with('z', "25006");
    let output = Cgroup::create(1).run(&pod, &settings.with_switch("--run-validation"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("validation passed") && !stderr.contains(" 0 not tried"), "{stderr}");
}

/// A user namespace of its own does not lift the limit of the user outside.
#[test]
fn a_users_limit_holds_in_a_user_namespace() {
    let program = Alone::create();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=61337", "--regid=61337", "--clear-groups", "unshare", "-Urn"]);
    // Only this user is mapped there.
    command.args(["prlimit", "--nproc=1"]).arg(program.path());
    command.args(["--ip-families=v4", "--proxy-uid=0", "--proxy-gid=0"]);
    let output = command.env_clear().env("PATH", SEARCH_PATH).output().expect("setpriv");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let warning = "warning: nftables is used in place of iptables: cannot run iptables-nft";
    assert!(stderr.starts_with(warning), "{stderr}");
}

#[test]
fn a_failed_run_leaves_no_route_and_no_address() {
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
        // The rules of the previous run are in force, and need its routes.
        pod.init(&tproxy);
        let installed = (pod.dump(), ours(&pod, variant));
        fails(&tproxy.clone().with('t', "1400").with('r', "140").with('b', "80"));
        assert_eq!((pod.dump(), ours(&pod, variant)), installed, "{variant}");
    }
}

fn settings() -> Settings {
    Settings::injected_dual().with_variable("PATH", SEARCH_PATH)
}

/// A cgroup with a process limit, like a pod's; removed when the value is dropped.
struct Cgroup {
    folder: PathBuf,
    _name: TempDir,
}

impl Cgroup {
    fn create(most: u32) -> Self {
        let unified = Path::new("/sys/fs/cgroup");
        let separate = unified.join("pids");
        let parent = if separate.exists() { &*separate } else { unified };
        if parent == unified {
            // systemd has already enabled the controller.
            let _ = fs::write(unified.join("cgroup.subtree_control"), "+pids");
        }
        // A name that no other test uses.
        let name = TempDir::with_prefix("outrigger-pids-").unwrap();
        let folder = parent.join(name.path().file_name().unwrap());
        fs::create_dir(&folder).expect("a cgroup");
        fs::write(folder.join("pids.max"), most.to_string()).expect("the limit of processes");
        Self { folder, _name: name }
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
