//! Long lists: interval sets that are installed at once, listed by nft, and loaded from that
//! listing.

use std::process::Command;

use crate::pod::Pod;
use crate::settings::Settings;

#[test]
fn thousand_ranges_and_ports_make_few_rules() {
    let pod = Pod::create();
    pod.init(&long_lists());
    let rules = pod.dump().matches(" counter ").count();
    assert!(rules < 40, "{rules} rules");
}

#[test]
fn second_run_with_long_lists_changes_nothing() {
    let pod = Pod::create();
    pod.init(&long_lists());
    let before = handles(&pod);
    pod.init(&long_lists());
    assert_eq!(handles(&pod), before);
    pod.init(&long_lists().with('o', "80"));
    assert_ne!(handles(&pod), before);
}

#[test]
fn nft_loads_its_listing_of_every_rule() {
    for settings in [
        Settings::injected(),
        Settings::injected_dual().with('m', "TPROXY").with_switch("--drop-invalid"),
        Settings::injected_dual().with_switch("--redirect-dns").with_name_servers(&[
            "10.1.2.3",
            "203.0.113.7",
            "2001:db8::7",
        ]),
        Settings::injected_dual()
            .with('k', "eth1,tap*")
            .with('c', "net+")
            .with('u', "1337,1400")
            .with_switch("--exclude-outbound-for-uids=1000-1999,3000;tcp:22,8000-9000:0;5000,6000"),
        long_lists(),
    ] {
        let pod = Pod::create();
        pod.init(&settings);
        let listed = list(&pod);
        let nft = |arguments: &[&str], input: &str| {
            pod.namespace.output(Command::new("nft").args(arguments), input).expect("nft")
        };
        nft(&["flush", "ruleset"], "");
        nft(&["-f", "-"], &listed);
        assert_eq!(list(&pod), listed, "{settings:?}");
        // The dry run's script has the same result.
        nft(&["flush", "ruleset"], "");
        let script = pod.init(&settings.dry_run());
        nft(&["-f", "-"], &script);
        assert_eq!(list(&pod), listed);
    }
}

fn long_lists() -> Settings {
    let ranges = |make: fn(u32) -> String| (0..1000).map(make).collect::<Vec<_>>().join(",");
    let excluded =
        ranges(|n| format!("10.{}.{}.0/24", n / 128, n % 128 * 2)) + "," + &ranges(v6_range);
    let ports = (0..1000).map(|n| (20_000 + 2 * n).to_string()).collect::<Vec<_>>().join(",");
    Settings::injected_dual().with('x', &excluded).with('o', &ports).with('d', &ports)
}

fn v6_range(n: u32) -> String {
    format!("fd00:{:x}::/32", 2 * n)
}

fn list(pod: &Pod) -> String {
    pod.namespace.output(Command::new("nft").args(["-s", "list", "ruleset"]), "").expect("nft")
}

/// Returns the rules with handles, which change when a rule is replaced.
fn handles(pod: &Pod) -> String {
    pod.namespace
        .output(Command::new("nft").args(["-a", "-s", "list", "ruleset"]), "")
        .expect("nft")
}
