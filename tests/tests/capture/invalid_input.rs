//! Invalid values in every flag and variable.

use std::collections::BTreeMap;
use std::process::Output;

use istio_init::args::flags::{FLAGS, FlagKind, FlagSpec, Support};
use istio_init::backend::nftables;
use istio_init::types::input_error::Escaped;

use crate::pod::{Pod, istio_init};

#[test]
fn invalid_value_is_named_and_nothing_is_installed() {
    let pod = Pod::create();
    let clean = pod.dump();
    let accepted = pod.namespace.run(try_all).expect("a thread in the pod");
    let mut rows: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, values) in &accepted {
        rows.entry(values.join(" ")).or_default().push(name);
    }
    let rows: Vec<String> =
        rows.iter().map(|(values, names)| format!("{}\n    {values}\n", names.join(" "))).collect();
    insta::assert_snapshot!(rows.concat(), @r#"
    --backend --force-iptables-binary --ip-families --istio-inbound-interception-mode FORCE_IPTABLES_BINARY IP_FAMILIES ISTIO_INBOUND_INTERCEPTION_MODE
        ""
    --exclude-outbound-for-uids EXCLUDE_OUTBOUND_FOR_UIDS
        "" " " "80 " "80\r" "80;443" "80\t" "65536" "0" "root" "80,"…×60000
    --istio-service-exclude-cidr ISTIO_SERVICE_EXCLUDE_CIDR
        "" ","
    --istio-service-cidr ISTIO_SERVICE_CIDR
        "" "," "*"
    --istio-inbound-ports ISTIO_INBOUND_PORTS
        "" "," "80 " "80\r" "80\t" "0" "*" "80,"…×60000
    --istio-local-exclude-ports --istio-local-outbound-ports-exclude --istio-outbound-ports ISTIO_LOCAL_EXCLUDE_PORTS ISTIO_LOCAL_OUTBOUND_PORTS_EXCLUDE ISTIO_OUTBOUND_PORTS
        "" "," "80 " "80\r" "80\t" "0" "80,"…×60000
    --istio-exclude-interfaces --kube-virt-interfaces ISTIO_EXCLUDE_INTERFACES KUBE_VIRT_INTERFACES
        "" "," "80 " "80\r" "80\t" "4294967296" "65536" "0" "0x50" "1e3" "80-" "9000-8000" "root" "no-such-user" "tproxy" "80,"…×60000
    --proxy-gid --proxy-uid PROXY_GID PROXY_UID
        "" "80 " "80\r" "80\t" "65536" "0" "root" "80,"…×60000
    --istio-inbound-tproxy-mark --istio-inbound-tproxy-route-table ISTIO_INBOUND_TPROXY_MARK ISTIO_INBOUND_TPROXY_ROUTE_TABLE
        "65536"
    "#);
    let mut cleanup = istio_init();
    pod.namespace.output(cleanup.arg("--cleanup-only"), "").expect("a cleanup");
    assert_eq!(pod.dump(), clean);
}

/// Returns the accepted values of each flag and variable that takes text.
fn try_all() -> BTreeMap<String, Vec<String>> {
    let mut accepted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut before = nftables::observe().expect("the rules");
    for (index, value) in values().into_iter().enumerate() {
        for spec in FLAGS {
            let has_meaning = spec.kind == FlagKind::Text && spec.support == Support::Implemented;
            if !has_meaning && index % FEWER != 0 {
                continue;
            }
            let flag = format!("--{}", spec.long);
            for name in std::iter::once(&*flag).chain(spec.variables.iter().copied()) {
                let output = run(name, &value);
                let after = nftables::observe().expect("the rules");
                if output.status.success() {
                    if has_meaning {
                        accepted.entry(name.to_owned()).or_default().push(shown(&value));
                    }
                    check_warning(spec, name, &value, &output);
                } else {
                    assert_eq!(after, before, "{name}: {value:?} is rejected but changes rules");
                    check_refusal(spec, name, &value, &output);
                }
                before = after;
            }
        }
    }
    accepted
}

fn run(name: &str, value: &str) -> Output {
    let mut command = istio_init();
    command.args(["--backend=nftables", "-b", "*", "-i", "*"]);
    if name.starts_with("--") {
        command.arg(format!("{name}={value}"));
    } else {
        // The command line overrides the variable.
        let words = ["--backend=nftables"];
        command = istio_init();
        command.args(words).env(name, value);
    }
    command.output().expect("istio-init")
}

/// Each error is one line that names the flag or variable, and the value.
fn check_refusal(spec: &FlagSpec, name: &str, value: &str, output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_usage = name.starts_with("--") && spec.kind != FlagKind::Text;
    let code = if is_usage { 2 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{name} {value:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{name} {value:?}");
    assert!(stderr.len() < MOST_SAID, "{name} {}: {} bytes", shown(value), stderr.len());
    if is_usage {
        // The cut argument includes the flag's name.
        let start: String = value.chars().take(50).collect();
        let is_named = stderr.contains(name) && stderr.contains(&Escaped(&start).to_string());
        assert!(is_named && stderr.starts_with("error: "), "{name} {value:?}: {stderr}");
        let is_clean = stderr.chars().all(|c| !c.is_control() || c == '\n');
        assert!(is_clean, "{name} {value:?} comes out as it is: {stderr:?}");
        return;
    }
    let mut complaints = stderr.lines().filter(|line| line.starts_with("error: "));
    let named = |line: &str| line.contains(name) && names_value(line, value);
    assert!(complaints.any(named), "{name} {value:?} is not named in\n{stderr}");
    has_no_control_characters(name, value, &stderr);
}

/// Invalid switches, numbers and durations in the environment are ignored with a warning.
fn check_warning(spec: &FlagSpec, name: &str, value: &str, output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_understood = value == "0" || (spec.kind == FlagKind::Number && value == "+80");
    if spec.kind != FlagKind::Text && !name.starts_with("--") && !is_understood {
        let named = |line: &str| line.contains(name) && names_value(line, value);
        assert!(stderr.lines().any(named), "{name} {value:?} is ignored silently:\n{stderr}");
    }
    has_no_control_characters(name, value, &stderr);
}

/// True if the line names the value, or the invalid element of a list.
fn names_value(line: &str, value: &str) -> bool {
    let mut elements = std::iter::once(value).chain(value.split([',', ';']));
    elements.any(|element| line.contains(&Escaped(element).to_string()))
}

/// A value cannot forge lines of the log.
fn has_no_control_characters(name: &str, value: &str, text: &str) {
    let is_clean = text.chars().all(|c| !c.is_control() || c == '\n');
    assert!(is_clean, "{name} {value:?} comes out as it is: {text:?}");
    let is_line = |line: &str| {
        ["error: ", "  hint: ", "warning: "].iter().any(|start| line.starts_with(start))
            || line.contains(" rules are in force, by nftables, for ")
    };
    assert!(text.lines().all(is_line), "{name} {value:?} writes lines: {text}");
}

#[test]
fn unknown_arguments_are_cut_and_escaped() {
    for word in ["--\u{1b}[31mred", "-\u{1b}", "\u{1b}[2J\nerror: forged", "--no\nerror: forged"] {
        let output = istio_init().arg(word).output().expect("istio-init");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{word:?}: {stderr}");
        assert!(stderr.chars().all(|c| !c.is_control() || c == '\n'), "{stderr:?}");
        assert!(!stderr.lines().any(|line| line == "error: forged"), "{stderr}");
    }
    for word in [format!("--{}", "x".repeat(120_000)), "y".repeat(120_000)] {
        let output = istio_init().args(["plan", &word]).output().expect("istio-init");
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stderr.len() < MOST_SAID, "{} bytes", output.stderr.len());
    }
}

fn values() -> Vec<String> {
    let mut values: Vec<String> = VALUES.iter().map(|value| (*value).to_owned()).collect();
    values.push("80,".repeat(20_000));
    values.push("x".repeat(100_000));
    values.push("!,".repeat(20_000));
    values
}

fn shown(value: &str) -> String {
    match value.len() {
        0..40 => format!("{value:?}"),
        length => format!("{:?}…×{length}", &value[..3]),
    }
}

/// Limit on the length of a message.
const MOST_SAID: usize = 4096;
/// Number of values for switches and for flags without effect, which have one parser each.
const FEWER: usize = 8;

const VALUES: &[&str] = &[
    "",
    " ",
    ",",
    "80 ",
    " 10.0.0.0/8",
    "80\n443",
    "80\nerror: forged",
    "80\r",
    "80;443",
    "80; flush ruleset",
    "80 -j ACCEPT",
    "'80'",
    "\"80\"",
    "`id`",
    "$(id)",
    "80\t",
    "\u{1}",
    "\u{1b}[31mred",
    "\u{7f}",
    "\u{202e}08",
    "99999999999999999999",
    "-1",
    "4294967296",
    "65536",
    "0",
    "８０",
    "é",
    "*",
    "net1,*",
    "80,*",
    "*,10.0.0.0/8",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "300.0.0.0/8",
    "::/129",
    "fe80::1%eth0/64",
    "abcdefghijklmnop",
    "../etc",
    "a/b",
    "0x50",
    "1e3",
    "+80",
    "80-",
    "9000-8000",
    "80:90:100",
    "{ 80 }",
    "@set",
    "-A",
    "--cleanup-only",
    "root",
    "no-such-user",
    "tproxy",
];
