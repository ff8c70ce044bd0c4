//! Repeated runs, cleanups, and runs with few privileges.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use istio_init::args::flags::Flag;
use istio_init::backend::nftables;
use istio_init::plan::{Chain, Origin, Plan, Rule, Table, Verdict};
use tempfile::TempDir;

use crate::pod::{Addresses, Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn second_run_changes_nothing() {
    for addresses in [Addresses::V4, Addresses::V6, Addresses::Both] {
        let pod = Pod::with(addresses);
        pod.init(&Settings::injected_dual());
        // A handle changes if a rule is replaced.
        let once = (pod.dump(), nft(&pod, "-s -a list ruleset"));
        pod.init(&Settings::injected_dual());
        assert_eq!((pod.dump(), nft(&pod, "-s -a list ruleset")), once, "{addresses:?}");
    }
}

#[test]
fn run_repairs_changed_rules() {
    let pod = Pod::create();
    let settings = Settings::injected_dual().with('x', "10.1.0.0/16").with('q', "8000:9000");
    pod.init(&settings);
    let planned = pod.dump();
    for change in [
        "add rule inet istio-proxy-nat istio-output accept",
        "insert rule inet istio-proxy-nat istio-output return",
        "replace rule inet istio-proxy-nat istio-redirect handle {} meta l4proto tcp counter \
         redirect to :15001 random comment \"--envoy-port\"",
        "flush chain inet istio-proxy-nat istio-output",
        "add chain inet istio-proxy-nat another",
        "add chain inet istio-proxy-nat another { type filter hook output priority 0; policy drop; }",
        "add chain inet istio-proxy-nat output { policy drop; }",
        "add table inet istio-proxy-nat { flags dormant; }",
        "add table inet istio-proxy-raw",
        "delete table inet istio-proxy-nat",
    ] {
        let redirect = nft(&pod, "-a list chain inet istio-proxy-nat istio-redirect");
        let handle = redirect.rsplit("# handle ").next().and_then(|rest| rest.lines().next());
        nft(&pod, &change.replace("{}", handle.unwrap()));
        pod.init(&settings);
        assert_eq!(pod.dump(), planned, "{change}");
    }
}

#[test]
fn run_with_other_flags_replaces_all_rules() {
    let (fresh, used) = (Pod::create(), Pod::create());
    let other = Settings::injected().with('b', "80").with('i', "10.0.0.0/8");
    fresh.init(&other);
    used.init(&Settings::injected_dual().with('c', "net1"));
    used.init(&other);
    assert_eq!(used.dump(), fresh.dump());
}

#[test]
fn foreign_rules_in_own_tables_are_removed() {
    let (fresh, used) = (Pod::create(), Pod::create());
    let other = Settings::injected().with('b', "80").with('i', "10.0.0.0/8");
    fresh.init(&other);
    used.init(&Settings::injected_dual().with('m', "TPROXY").with_switch("--redirect-dns"));
    let jump = "{ type mark : verdict; elements = { 7 : jump istio-inbound }; }";
    nft(&used, &format!("add map inet istio-proxy-nat theirs {jump}"));
    nft(&used, "delete table inet istio-proxy-raw");
    nft(&used, "add table inet istio-proxy-raw");
    let early = "{ type filter hook output priority -400; }";
    nft(&used, &format!("add chain inet istio-proxy-raw output {early}"));
    used.init(&other.clone().with_switch("--redirect-dns").with_switch("--capture-all-dns"));
    used.init(&other);
    assert_eq!(used.dump(), fresh.dump());
}

#[test]
fn run_replaces_own_tables_and_keeps_foreign_ones() {
    let pod = Pod::create();
    nft(&pod, "add table inet others");
    nft(&pod, "add table inet istio-proxy-mangle");
    nft(&pod, "add chain inet istio-proxy-mangle stale");
    pod.init(&Settings::injected());
    assert_eq!(nft(&pod, "list tables"), "table inet others\ntable inet istio-proxy-nat\n");
    assert!(clean_up(&pod).status.success());
    assert_eq!(nft(&pod, "list tables"), "table inet others\n");
}

#[test]
fn cleanup_restores_the_namespace() {
    for settings in [Settings::injected(), Settings::injected_dual(), Settings::default()] {
        let pod = Pod::create();
        let before = pod.dump();
        pod.init(&settings);
        assert_ne!(pod.dump(), before);
        for _ in 0..2 {
            let output = clean_up(&pod);
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(pod.dump(), before, "{settings:?}");
        }
    }
}

#[test]
fn cleanup_ignores_invalid_flags() {
    let pod = Pod::create();
    pod.init(&Settings::injected());
    let mut command = istio_init();
    command.args(["--cleanup-only", "-b", "no port", "--redirect-dns"]);
    assert!(pod.namespace.run(|| command.output()).unwrap().unwrap().status.success());
}

#[test]
fn run_succeeds_while_other_rules_change() {
    let pod = Pod::create();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let mut nft = Command::new("nft");
                let script = "add table inet others\ndelete table inet others\n";
                pod.namespace.output(nft.args(["-f", "-"]), script).unwrap();
            }
        });
        let runs: Vec<_> = (0..30).map(|_| pod.try_init(&Settings::injected())).collect();
        done.store(true, Ordering::Relaxed);
        for run in runs {
            run.unwrap();
        }
    });
}

#[test]
fn rejected_run_reports_why_and_changes_nothing() {
    let pod = Pod::create();
    pod.init(&Settings::injected());
    let before = pod.dump();
    let run = |words: &[&str]| {
        let output = pod.namespace.run(|| istio_init().args(words).output()).unwrap().unwrap();
        assert_eq!(pod.dump(), before, "{words:?}");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, stdout, stderr) = run(&["-b", "80-", "-x", "10.0.0.1"]);
    assert_eq!((code, &*stdout), (Some(1), ""));
    insta::assert_snapshot!(stderr, @r"
    error: --istio-inbound-ports: `80-` is not a port
      hint: use a number from 0 to 65535, or a range such as 8000-9000
    error: --istio-service-exclude-cidr: `10.0.0.1` is not an address range: it has no prefix length
      hint: write 10.0.0.1/32
    ");
    for usage in [&["--no-such-flag"][..], &["word"], &["--dry-run=perhaps"], &["-p"]] {
        let (code, stdout, stderr) = run(usage);
        assert_eq!((code, &*stdout), (Some(2), ""));
        assert!(stderr.starts_with("error: "), "{stderr}");
    }
    let (code, stdout, stderr) = run(&["--help"]);
    assert_eq!((code, &*stderr), (Some(0), ""));
    assert!(stdout.contains("--istio-service-exclude-cidr"));
}

#[test]
fn kernel_error_names_rule_and_flag() {
    let pod = Pod::create();
    pod.init(&Settings::injected());
    let before = pod.dump();
    let back_to_the_kernel = Rule {
        table: Table::Nat,
        chain: Chain::Inbound,
        matches: Vec::new(),
        verdict: Verdict::Jump(Chain::Output),
        origin: Origin::Flag(Flag::InboundPorts),
    };
    let plan =
        Plan { rules: vec![back_to_the_kernel], passthrough_address: false, tproxy_routing: None };
    let refusal = pod.namespace.run(|| nftables::apply(&plan).unwrap_err().to_string()).unwrap();
    insta::assert_snapshot!(refusal, @r#"the kernel rejects `add rule inet istio-proxy-nat istio-inbound counter jump output comment "--istio-inbound-ports"` (from --istio-inbound-ports); no rule was changed: Operation not supported (os error 95); hint: the kernel lacks nf_tables with NAT for the inet family (Linux 5.2 or later)"#);
    assert_eq!(pod.dump(), before);
}

#[test]
fn error_is_written_as_termination_message() {
    let pod = Pod::create();
    let program = Alone::create();
    let message = program.folder.path().join("dev/termination-log");
    fs::create_dir_all(message.parent().unwrap()).unwrap();
    fs::write(&message, "").unwrap();
    let mut chroot = Command::new("chroot");
    chroot.arg(program.folder.path()).args(["/istio-init", "-b", "80-"]);
    let output = pod.namespace.run(|| chroot.output()).unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let left = fs::read_to_string(&message).unwrap();
    assert!(left.starts_with("error: --istio-inbound-ports: `80-` "), "{left}");
    // One line, with the hint.
    assert_eq!(left.trim_end(), text(&output.stderr).trim_end().replace("\n  hint: ", "; hint: "));
}

#[test]
fn pod_without_address_is_rejected() {
    let namespace = e2e::netns::Namespace::create().unwrap();
    let output = namespace.run(|| istio_init().output()).unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("after the network is set up, or set --ip-families"));
}

#[test]
fn net_admin_suffices_on_a_read_only_file_system() {
    let tproxy = Settings::injected_dual()
        .with('m', "TPROXY")
        .with_switch("--redirect-dns")
        .with_switch("--capture-all-dns")
        .with_switch("--drop-invalid");
    let program = Alone::create();
    for by in [|settings: Settings| settings, |settings: Settings| settings.by_iptables("nft")] {
        let (pod, expected) = (Pod::create(), Pod::create());
        let run = |words: &[String]| {
            let output = program.run_words_as_nobody(&pod, "-all,+net_admin", words);
            assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        };
        for settings in [Settings::injected_dual(), tproxy.clone(), Settings::injected()].map(by) {
            expected.init(&settings);
            run(&settings.command_line());
            assert_eq!(sorted(&pod.dump()), sorted(&expected.dump()), "{settings:?}");
            let question = [&["verify".to_owned()], &settings.command_line()[1..]].concat();
            run(&question);
        }
        run(&["cleanup".to_owned()]);
        clean_up(&expected);
        assert_eq!(pod.dump(), expected.dump());
    }
}

#[test]
fn missing_net_admin_is_named() {
    let pod = Pod::create();
    let before = pod.dump();
    let output = Alone::create().run_as_nobody(&pod, "-all", &Settings::injected());
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    insta::assert_snapshot!(stderr, @r"
    error: cannot list the rules of an earlier run in nf_tables: Operation not permitted (os error 1)
      hint: istio-init needs the capability NET_ADMIN, which this container does not have: add it to its securityContext
    ");
    assert_eq!(pod.dump(), before);
}

#[test]
fn nftables_runs_no_other_program() {
    let (pod, expected) = (Pod::create(), Pod::create());
    let program = Alone::create();
    let run = |settings: &Settings| {
        let mut chroot = Command::new("chroot");
        chroot.arg(program.folder.path()).arg("/istio-init").args(settings.command_line());
        pod.namespace.output(chroot.env_clear().env("PATH", SEARCH_PATH), "").expect("chroot")
    };
    run(&Settings::injected_dual());
    expected.init(&Settings::injected_dual());
    assert_eq!(pod.dump(), expected.dump());
    assert!(run(&Settings::injected_dual().dry_run()).contains("add rule"));
}

/// The program in a folder without other files, except libraries of a dynamic build.
pub(crate) struct Alone {
    folder: TempDir,
}

impl Alone {
    pub(crate) fn create() -> Self {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = PathBuf::from(istio_init().get_program());
        fs::copy(&program, folder.path().join("istio-init")).unwrap();
        // For a static program, ldd fails and there is nothing to copy.
        let libraries = Command::new("ldd").arg(&program).output().unwrap();
        for word in text(&libraries.stdout).split_whitespace().filter(|word| word.starts_with('/'))
        {
            let copy = folder.path().join(word.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(Path::new(word), copy).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("istio-init")
    }

    /// Runs the program in the pod as an ordinary user with these capabilities, with read-only file
    /// systems and kernel settings.
    pub(crate) fn run_as_nobody(
        &self,
        pod: &Pod,
        capabilities: &str,
        settings: &Settings,
    ) -> Output {
        self.run_words_as_nobody(pod, capabilities, &settings.command_line())
    }

    /// Runs the program with any arguments.
    pub(crate) fn run_words_as_nobody(
        &self,
        pod: &Pod,
        capabilities: &str,
        words: &[String],
    ) -> Output {
        let script = "mount --make-rprivate / && mount --bind /proc/sys /proc/sys && \
                      for point in /proc/sys /run /tmp /dev /; do \
                      mount -o remount,bind,ro $point 2>/dev/null || \
                      { mount --bind $point $point && mount -o remount,bind,ro $point; } || exit; \
                      ! touch $point/writable 2>/dev/null || exit; done; exec setpriv \"$@\"";
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", script, "sh"]);
        unshare.args(["--reuid=1000", "--regid=1000", "--clear-groups", "--no-new-privs"]);
        for set in ["bounding-set", "inh-caps", "ambient-caps"] {
            unshare.arg(format!("--{set}={capabilities}"));
        }
        unshare.arg(self.folder.path().join("istio-init")).args(words);
        unshare.env_clear().env("PATH", SEARCH_PATH);
        pod.namespace.run(|| unshare.output()).unwrap().unwrap()
    }
}

/// Runs one nft command; options come first.
fn nft(pod: &Pod, words: &str) -> String {
    let mut command = Command::new("nft");
    pod.namespace.output(command.args(words.split_whitespace()), "").expect(words)
}

/// Sorts lines, since iptables creates chains in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn clean_up(pod: &Pod) -> Output {
    pod.namespace.run(|| istio_init().arg("--cleanup-only").output()).unwrap().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
