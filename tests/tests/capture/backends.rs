//! Backend choice of a run, and the handling of the other backend's rules.

use crate::iptables_lifecycle::{Recorder, every_kind_of_rule, iptables, nft, ours};
use crate::iptables_rules::legacy_tables;
use crate::lifecycle::Alone;
use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn another_backend_takes_the_place_of_the_first() {
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
fn rules_of_iptables_nft_go_without_that_program() {
    let others = [
        "-t nat -A OUTPUT -p tcp --dport 99 -j RETURN",
        "-t mangle -N OTHERS",
        "-t mangle -A OTHERS -m comment --comment of_istio-init -j RETURN",
        // A chain of the kernel stays once it exists.
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
fn auto_takes_iptables_where_there_is_one() {
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
    // A pod with legacy rules uses the legacy program; an empty table does not count.
    iptables(&legacy, "legacy", "-t nat -A OUTPUT -p tcp --dport 1 -j RETURN");
    run(&legacy, Some(SEARCH_PATH));
    assert_eq!(nft(&legacy, "list tables"), "");
    iptables(&without, "legacy", "-t nat -S");
    run(&without, Some(SEARCH_PATH));
    assert_eq!(nft(&without, "list tables"), "table ip nat\n");
}

#[test]
fn a_pod_that_starts_again_in_an_image_of_the_other_kind_has_one_set_of_rules() {
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
fn auto_takes_what_works_for_a_user_with_one_capability() {
    let (pod, expected) = (Pod::create(), Pod::create());
    expected.init(&Settings::injected().by_iptables("nft"));
    // The legacy program would be preferred, but only the administrator may run it.
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
fn auto_takes_nftables_where_iptables_cannot_take_its_lock() {
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
    warning: nftables is used in place of iptables: iptables-legacy-restore refuses: Fatal: can't open lock file /run/xtables.lock: Read-only file system
    14 rules are in force, by nftables, for IPv4
    ");
    assert_eq!(pod.dump(), expected.dump());
}

#[test]
fn an_iptables_that_cannot_be_run_is_as_none() {
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
    assert!(stderr.contains("iptables-nft-restore cannot work: libxtables.so.12"), "{stderr}");
}

#[test]
fn one_capability_is_enough_for_iptables_nft() {
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
