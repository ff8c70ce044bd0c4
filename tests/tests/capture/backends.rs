//! Choice of the backend, and replacement of the other backend's rules.

use crate::iptables_lifecycle::{Recorder, every_kind_of_rule, iptables, nft, ours};
use crate::iptables_rules::legacy_tables;
use crate::lifecycle::Alone;
use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn second_backend_replaces_the_first() {
    let settings = every_kind_of_rule();
    let of = |backend: &str| match backend {
        "nftables" => settings.clone().with_variable("PATH", SEARCH_PATH),
        "nft" => settings.clone().by_iptables("nft"),
        _ => settings.clone().by_iptables("legacy"),
    };
    let state = |pod: &Pod| (pod.dump(), ours(pod, "legacy"));
    let backends = ["nftables", "nft", "legacy"];
    for first in backends {
        for second in backends.into_iter().filter(|second| *second != first) {
            let (fresh, used) = (Pod::create(), Pod::create());
            fresh.init(&of(second));
            used.init(&of(first));
            used.init(&of(second));
            assert_eq!(state(&used), state(&fresh), "{first}, then {second}");
        }
    }
}

#[test]
fn iptables_nft_rules_are_removed_over_netlink() {
    let others = [
        "-t nat -A OUTPUT -p tcp --dport 99 -j RETURN",
        "-t mangle -N OTHERS",
        "-t mangle -A OTHERS -m comment --comment of_istio-init -j RETURN",
        // A chain of the kernel exists once it was used.
        "-t nat -A PREROUTING -p tcp --dport 99 -j RETURN",
        "-t mangle -A PREROUTING -p tcp --dport 99 -j OTHERS",
        "-t mangle -A OUTPUT -p tcp --dport 99 -j OTHERS",
    ];
    let (fresh, used, clean) = (Pod::create(), Pod::create(), Pod::create());
    for pod in [&fresh, &used, &clean] {
        for rule in others {
            iptables(pod, "nft", rule);
        }
    }
    let before = clean.dump();
    fresh.init(&Settings::injected());
    for pod in [&used, &clean] {
        pod.init(&every_kind_of_rule().with('m', "TPROXY").by_iptables("nft"));
    }
    used.init(&Settings::injected());
    assert_eq!(used.dump(), fresh.dump());
    clean.init(&Settings::default().with_switch("--cleanup-only"));
    assert_eq!(clean.dump(), before);
}

#[test]
fn auto_uses_iptables_if_present() {
    let run_with = |pod: &Pod, path: Option<&str>, words: &[&str]| {
        let mut command = istio_init();
        command.args(["-i", "*"]).args(words).envs(path.map(|path| ("PATH", path)));
        pod.namespace.output(&mut command, "").unwrap();
    };
    let run = |pod: &Pod, path| run_with(pod, path, &[]);
    let (with, without, legacy) = (Pod::create(), Pod::create(), Pod::create());
    for words in ["--native-nftables", "--backend=nftables"] {
        run_with(&with, Some(SEARCH_PATH), &[words]);
        assert_eq!(nft(&with, "list tables"), "table inet istio-proxy-nat\n");
    }
    run(&with, Some(SEARCH_PATH));
    assert_eq!(nft(&with, "list tables"), "table ip nat\n");
    assert_eq!(legacy_tables(&with.namespace), "", "looking makes no table");
    run(&without, None);
    assert_eq!(nft(&without, "list tables"), "table inet istio-proxy-nat\n");
    // Legacy is used if it has rules; an empty table does not count.
    iptables(&legacy, "legacy", "-t nat -A OUTPUT -p tcp --dport 1 -j RETURN");
    run(&legacy, Some(SEARCH_PATH));
    assert_eq!(nft(&legacy, "list tables"), "");
    iptables(&without, "legacy", "-t nat -S");
    run(&without, Some(SEARCH_PATH));
    assert_eq!(nft(&without, "list tables"), "table ip nat\n");
}

#[test]
fn restart_with_another_image_leaves_one_set_of_rules() {
    let run = |pod: &Pod, path: &str| {
        let mut command = istio_init();
        command.args(Settings::injected().command_line()).arg("--backend=auto").env("PATH", path);
        pod.namespace.output(&mut command, "").unwrap();
    };
    let paths = ["/nonexistent", SEARCH_PATH];
    for (first, second) in [(paths[0], paths[1]), (paths[1], paths[0])] {
        let (used, fresh) = (Pod::create(), Pod::create());
        run(&used, first);
        run(&used, second);
        run(&fresh, second);
        assert_eq!(used.dump(), fresh.dump(), "{first}, then {second}");
    }
}

#[test]
fn auto_with_only_net_admin_uses_a_working_backend() {
    let (pod, expected) = (Pod::create(), Pod::create());
    expected.init(&Settings::injected().by_iptables("nft"));
    // The legacy program would be preferred, but needs root.
    for pod in [&pod, &expected] {
        iptables(pod, "legacy", "-t nat -A OUTPUT -p tcp --dport 99 -j RETURN");
    }
    let settings = Settings::injected().with_switch("--backend=auto");
    let settings = settings.with_variable("PATH", SEARCH_PATH);
    let output = Alone::create().run_as_nobody(&pod, "-all,+net_admin", &settings);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(pod.dump(), expected.dump());
}

#[test]
fn auto_uses_nftables_if_iptables_cannot_lock() {
    let (pod, expected) = (Pod::create(), Pod::create());
    expected.init(&Settings::injected());
    let programs = Recorder::create("legacy");
    let complaint = "echo \"Fatal: can't open lock file /run/xtables.lock: Read-only file system\"";
    programs.replace("iptables-legacy-restore", &format!("{complaint} >&2; exit 4"));
    let settings = Settings::injected().with_switch("--backend=auto");
    let output = programs.try_run(&pod, &settings);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    insta::assert_snapshot!(stderr, @r"
    warning: nftables is used in place of iptables: iptables-legacy-restore rejects: Fatal: can't open lock file /run/xtables.lock: Read-only file system
      hint: iptables-legacy needs a lock file that it can write, /run/xtables.lock unless XTABLES_LOCKFILE names another; or use --backend nftables, which needs no lock
    14 rules are in force, by nftables, for IPv4
    ");
    assert_eq!(pod.dump(), expected.dump());
}

#[test]
fn unusable_iptables_counts_as_missing() {
    let (pod, expected) = (Pod::create(), Pod::create());
    expected.init(&Settings::injected());
    let programs = Recorder::create("nft");
    programs.replace("iptables-nft-restore", "echo 'libxtables.so.12: cannot open' >&2; exit 127");
    let run = |words: &[&str]| {
        let mut command = istio_init();
        command.args(Settings::injected().command_line()).args(words);
        command.env("PATH", programs.folder.path());
        let output = pod.namespace.run(|| command.output()).unwrap().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (succeeded, stderr) = run(&["--backend=auto"]);
    assert!(succeeded, "{stderr}");
    assert!(stderr.starts_with("warning: nftables is used in place of iptables"), "{stderr}");
    assert_eq!(pod.dump(), expected.dump());
    let (succeeded, stderr) = run(&["--backend=iptables"]);
    assert!(!succeeded);
    assert!(stderr.contains("iptables-nft-restore does not work: libxtables.so.12"), "{stderr}");
}

#[test]
fn iptables_nft_needs_only_net_admin() {
    let (pod, expected) = (Pod::create(), Pod::create());
    let settings = Settings::injected_dual().by_iptables("nft");
    expected.init(&settings);
    let output = Alone::create().run_as_nobody(&pod, "-all,+net_admin", &settings);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(pod.dump(), expected.dump());
    let refused = Alone::create().run_as_nobody(&Pod::create(), "-all", &settings);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("the capability NET_ADMIN"), "{stderr}");
}
