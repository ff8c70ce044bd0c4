//! Runs that wait for the lock of iptables-legacy, or for earlier runs.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Stdio};

use e2e::netns::Owner;
use e2e::wait;
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use tempfile::TempDir;

use crate::iptables_rules::{VARIANTS, rules};
use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn run_waits_for_the_lock() {
    let (pod, expected) = (Pod::create(), Pod::create());
    let settings = Settings::injected_dual().by_iptables("legacy");
    expected.init(&settings);
    let lock = Lock::create();
    let untouched = rules(&pod, "legacy");
    let held = lock.hold();
    let run = lock.start(&pod, &settings, SEARCH_PATH);
    lock.wait_for_one_who_waits();
    assert_eq!(rules(&pod, "legacy"), untouched);
    drop(held);
    let output = run.wait_with_output().expect("istio-init");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(rules(&pod, "legacy"), rules(&expected, "legacy"));
}

#[test]
fn run_names_the_holder_of_a_stuck_lock() {
    let pod = Pod::create();
    let lock = Lock::create();
    let untouched = rules(&pod, "legacy");
    let _held = lock.hold();
    // Istio's wait of half a minute is shortened.
    let programs = TempDir::new().expect("a folder");
    for name in ["iptables-legacy", "ip6tables-legacy"] {
        link(&programs, name, &format!("exec /usr/sbin/{name} \"$@\""));
        let script = format!(
            "[ \"$*\" = '--noflush --wait=30' ] && \
             exec /usr/sbin/{name}-restore --noflush --wait=1"
        );
        link(&programs, &format!("{name}-restore"), &script);
    }
    let settings = Settings::injected_dual().by_iptables("legacy");
    let run = lock.start(&pod, &settings, programs.path().to_str().expect("a path"));
    let output = run.wait_with_output().expect("istio-init");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert!(stderr.contains("xtables lock"), "{stderr}");
    let hint = "hint: another program holds the lock of iptables-legacy; end it, or use \
                --backend nftables, which needs no lock";
    assert!(stderr.contains(hint), "{stderr}");
    assert_eq!(rules(&pod, "legacy"), untouched);
}

#[test]
fn nftables_needs_no_lock() {
    let pod = Pod::create();
    let lock = Lock::create();
    let _held = lock.hold();
    for settings in [Settings::injected_dual(), Settings::injected_dual().by_iptables("nft")] {
        let run = lock.start(&pod, &settings, SEARCH_PATH);
        let output = run.wait_with_output().expect("istio-init");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The orphan lives until its input ends. It has read the old run's rules and commits them after
/// the next run has started.
#[test]
fn run_waits_for_children_of_a_killed_run() {
    for variant in VARIANTS {
        let (pod, expected) = (Pod::create(), Pod::create());
        let settings = Settings::injected_dual().with('c', "net1").by_iptables(variant);
        expected.init(&settings);
        let programs = TempDir::new().expect("a folder");
        let gate = programs.path().join("gate");
        mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        for family in ["iptables", "ip6tables"] {
            let name = format!("{family}-{variant}");
            link(&programs, &name, &format!("exec /usr/sbin/{name} \"$@\""));
            let restore = format!(
                "rules=$(/usr/bin/cat); kill -9 $PPID; read line <{}; \
                 echo \"$rules\" | /usr/sbin/{name}-restore \"$@\"",
                gate.display()
            );
            link(&programs, &format!("{name}-restore"), &restore);
        }
        let killed = start(&pod, &settings, programs.path().to_str().expect("a path"));
        assert!(!killed.wait_with_output().expect("istio-init").status.success());
        let mut next = start(&pod, &settings, SEARCH_PATH);
        let mut line = String::new();
        let stderr = next.stderr.as_mut().expect("a pipe");
        BufReader::new(stderr).read_line(&mut line).expect("a line");
        // The kernel cuts the name.
        let orphan = format!("({:.15})", format!("iptables-{variant}-restore"));
        assert!(line.starts_with("waiting for another run in this network namespace: process "));
        assert!(line.contains(&orphan), "{line} does not name {orphan}");
        fs::write(&gate, "go on\n").expect("the orphan reads");
        let output = next.wait_with_output().expect("istio-init");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(rules(&pod, variant), rules(&expected, variant));
    }
}

#[test]
fn concurrent_runs_install_one_set_of_rules() {
    for variant in VARIANTS {
        let (pod, expected) = (Pod::create(), Pod::create());
        let settings = Settings::injected_dual().with('c', "net1").by_iptables(variant);
        expected.init(&settings);
        let runs: Vec<Child> = (0..4).map(|_| start(&pod, &settings, SEARCH_PATH)).collect();
        for run in runs {
            let output = run.wait_with_output().expect("istio-init");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        assert_eq!(rules(&pod, variant), rules(&expected, variant));
    }
}

#[test]
fn lock_cannot_be_held_without_net_admin() {
    let pod = Pod::create();
    let settings = Settings::injected_dual();
    for owner in [Owner { uid: 1000, gid: 1000 }, Owner::ROOT] {
        let hold = || {
            let none = CapabilitySet::empty();
            let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
            set_capabilities(None, sets).expect("no capabilities");
            let file = File::open("/proc/thread-self/ns/net").expect("the namespace");
            flock(file.as_fd(), FlockOperation::LockExclusive).expect("a lock of the file");
            (file, take_group())
        };
        let (_file, (_socket, answer)) = pod.namespace.run_as(owner, hold).expect("a thread");
        assert_eq!(answer, -Errno::PERM.raw_os_error(), "{owner:?}");
        let run = start(&pod, &settings, SEARCH_PATH);
        let output = run.wait_with_output().expect("istio-init");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !stderr.contains("waiting"), "{owner:?}: {stderr}");
    }
}

/// Requests the log group that serves as the lock. Returns the socket and the kernel's answer.
fn take_group() -> (OwnedFd, i32) {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::NETFILTER),
    )
    .expect("a socket");
    let [high, low] = 15_006_u16.to_be_bytes();
    let mut request = Vec::new();
    for number in [28_u16, 0, 4 << 8 | 1, 5, 1, 0, 0, 0] {
        request.extend(number.to_ne_bytes());
    }
    request.extend([0, 0, high, low, 5, 0, 1, 0, 1, 0, 0, 0]);
    send(&socket, &request, SendFlags::empty()).expect("a request");
    let mut answer = [0_u8; 64];
    recv(&socket, &mut answer[..], RecvFlags::empty()).expect("an answer");
    let code = answer[16..20].try_into().expect("four bytes");
    (socket, i32::from_ne_bytes(code))
}

#[test]
fn run_works_without_proc() {
    let pod = Pod::create();
    let settings = Settings::injected_dual();
    let script = "mount --make-rprivate / && mount -t tmpfs tmpfs /proc && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    command.arg(istio_init().get_program()).args(settings.command_line());
    pod.namespace.output(&mut command, "").expect("istio-init");
}

fn start(pod: &Pod, settings: &Settings, path: &str) -> Child {
    let mut command = istio_init();
    command.args(settings.command_line()).env_clear().env("PATH", path);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    pod.namespace.run(|| command.spawn()).expect("a thread").expect("istio-init")
}

fn wait_for_one_who_waits(inode: u64) {
    let inode = format!(":{inode} ");
    wait::until("a run waits for the lock", || {
        let locks = fs::read_to_string("/proc/locks").expect("the kernel's locks");
        let is_waiting = |line: &str| line.contains("-> FLOCK") && line.contains(&inode);
        if locks.lines().any(is_waiting) { Ok(()) } else { Err("no run does") }
    })
    .expect("istio-init waits");
}

/// File that replaces the machine's lock file for programs of this test.
struct Lock {
    file: tempfile::NamedTempFile,
}

impl Lock {
    fn create() -> Self {
        Self { file: tempfile::NamedTempFile::new().expect("a file") }
    }

    /// Holds the lock until dropped.
    fn hold(&self) -> File {
        let file = File::open(self.file.path()).expect("the lock");
        flock(file.as_fd(), FlockOperation::LockExclusive).expect("the lock is free");
        file
    }

    fn start(&self, pod: &Pod, settings: &Settings, path: &str) -> Child {
        let script = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && \
                      : >/run/xtables.lock && mount --bind \"$0\" /run/xtables.lock && \
                      PATH=$TOOLS exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(self.file.path());
        command.arg(istio_init().get_program()).args(settings.command_line());
        command.env_clear().env("PATH", SEARCH_PATH).env("TOOLS", path);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        pod.namespace.run(|| command.spawn()).expect("a thread").expect("unshare")
    }

    fn wait_for_one_who_waits(&self) {
        wait_for_one_who_waits(fs::metadata(self.file.path()).expect("the lock").ino());
    }
}

fn link(folder: &TempDir, name: &str, script: &str) {
    let path = folder.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
}
