//! `verify`, `plan --from-kernel` and `probe` on installed rules.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use e2e::netns::{self, Namespace, Owner};
use e2e::programs::repository;
use e2e::wait::until;

use crate::pod::{Pod, istio_init};
use crate::settings::{SEARCH_PATH, Settings};

#[test]
fn installed_rules_equal_the_plan() {
    for flags in SETS {
        let pod = namespace();
        let differs = ask(&pod, &["verify"], flags);
        assert_eq!(differs.status.code(), Some(3), "{flags}: {}", text(&differs));
        succeed(&pod, &[], flags);
        assert!(succeed(&pod, &["verify"], flags).starts_with("installed as planned"), "{flags}");
        let installed = succeed(&pod, &["plan", "--from-kernel", "--output=nft"], "");
        let planned = succeed(&pod, &["plan", "--output=nft"], flags);
        assert_eq!(installed.lines().count(), planned.lines().count(), "{flags}");
        // Installing the rules as read back gives the same rules.
        let script: String = without_remarks(&installed);
        pod.output(Command::new("nft").args(["-f", "-"]), &script).expect(&installed);
        assert!(succeed(&pod, &["verify"], flags).starts_with("installed as planned"), "{flags}");
    }
}

#[test]
fn verify_shows_and_repairs_a_difference() {
    let pod = namespace();
    succeed(&pod, &[], SETS[0]);
    for (tamper, shown) in [
        ("nft insert rule inet istio-proxy-nat istio-output tcp dport 99 drop", "+     a rule of:"),
        ("nft flush chain inet istio-proxy-nat istio-redirect", "-     meta l4proto tcp redirect"),
        ("nft add chain inet istio-proxy-nat other", "+   chain other"),
        ("nft add table inet istio-proxy-raw", "+ table inet istio-proxy-raw"),
        ("nft delete table inet istio-proxy-nat", "- table inet istio-proxy-nat"),
        ("ip -6 address delete ::6/128 dev lo", "- address ::6/128 on lo"),
    ] {
        let mut words = tamper.split(' ');
        let mut command = Command::new(words.next().expect("a program"));
        pod.output(command.args(words), "").expect(tamper);
        let differs = ask(&pod, &["verify"], SETS[0]);
        assert_eq!(differs.status.code(), Some(3), "{tamper}");
        is_by_schema("verify", &ask(&pod, &["verify", "-o", "json"], SETS[0]));
        assert!(text(&differs).contains(shown), "{tamper}: {}", text(&differs));
        succeed(&pod, &["verify", "--reconcile"], SETS[0]);
        succeed(&pod, &["verify"], SETS[0]);
    }
}

/// Checks JSON by its published schema.
pub(crate) fn is_by_schema(command: &str, answer: &Output) {
    let file = format!("docs/schemas/istio-init-{command}.schema.json");
    let schema = std::fs::read(repository().join(file)).expect("a schema");
    let schema: serde_json::Value = serde_json::from_slice(&schema).expect("JSON");
    let value: serde_json::Value = serde_json::from_slice(&answer.stdout).expect("JSON");
    assert_eq!(reference_pages::schema::validate(&value, &schema), Ok(()), "{value:#}");
}

#[test]
fn tproxy_routes_are_verified() {
    let pod = namespace();
    let flags = "-m TPROXY -i * -b * --dual-stack";
    succeed(&pod, &[], flags);
    succeed(&pod, &["verify"], flags);
    pod.ip("route flush table 133").expect("no route any more");
    let differs = ask(&pod, &["verify"], flags);
    assert!(text(&differs).contains("- IPv4 rule: mark 1337 to table 133"), "{}", text(&differs));
    succeed(&pod, &["verify", "--reconcile"], flags);
    succeed(&pod, &["verify"], flags);
}

/// State after a run that was killed after adding the rule.
#[test]
fn policy_rule_without_route_is_a_difference() {
    let pod = namespace();
    let flags = "-i * -b * --dual-stack";
    succeed(&pod, &[], flags);
    pod.ip("rule add fwmark 1337 lookup 133 priority 15006 protocol 136").expect("a rule");
    let differs = ask(&pod, &["verify"], flags);
    assert_eq!(differs.status.code(), Some(3), "{}", text(&differs));
    let shown = "+ IPv4 rule: mark 1337 to table 133, no route";
    assert!(text(&differs).contains(shown), "{}", text(&differs));
    succeed(&pod, &["verify", "--reconcile"], flags);
    succeed(&pod, &["verify"], flags);
}

#[test]
fn probe_accepts_installed_rules() {
    for flags in SETS {
        let pod = namespace();
        succeed(&pod, &[], flags);
        let report = succeed(&pod, &["probe"], flags);
        assert!(!report.contains("WRONG"), "{report}");
        succeed(&pod, &["probe", "--from-kernel"], "");
    }
}

/// Istio's validation passes if rules capture nothing; this one fails if they should.
#[test]
fn probe_fails_for_missing_rules() {
    let pod = namespace();
    succeed(&pod, &[], "-i  -b ");
    let capture_all = "-i * -b * --probe-timeout 400ms";
    for command in [&["probe"][..], &["--run-validation", "--skip-rule-apply"]] {
        let disproved = ask(&pod, command, capture_all);
        assert_eq!(disproved.status.code(), Some(126), "{}", text(&disproved));
        assert!(text(&disproved).contains("WRONG  tcp of 0:0"), "{}", text(&disproved));
    }
    succeed(&pod, &["--run-validation"], "-i * -b *");
}

/// Flags or rules alone do not show the difference.
#[test]
fn probe_fails_if_half_of_ipv4_is_missing() {
    for (installed, asked) in [("-x 0.0.0.0/1", ""), ("", "-x 0.0.0.0/1"), ("-x 1.2.0.0/16", "")] {
        let pod = namespace();
        let flags = |more: &str| format!("-i * -b * {more}").trim().to_owned();
        succeed(&pod, &[], &flags(installed));
        let disproved = ask(&pod, &["probe", "--probe-timeout", "400ms"], &flags(asked));
        assert_eq!(disproved.status.code(), Some(126), "{installed}: {}", text(&disproved));
        let report = succeed(&pod, &["probe"], &flags(installed));
        assert!(report.contains(" flows match the plan, 0 do not, "), "{report}");
    }
}

#[test]
fn probe_reports_which_port_accepts_from_outside() {
    let pod = namespace();
    let flags = "-i * -b * -d 15090 -c net1,a+ --dual-stack";
    succeed(&pod, &[], flags);
    let before = links(&pod);
    // A program of the pod listens on an excluded port, so the probe cannot.
    let answer = pod.run(|| {
        let _own = TcpListener::bind("0.0.0.0:15008").expect("a free port");
        ask(&pod, &["probe", "-o", "json"], flags)
    });
    let answer = answer.expect("a thread");
    assert!(answer.status.success(), "{}", text(&answer));
    is_by_schema("probe", &answer);
    let seen: Vec<serde_json::Value> = serde_json::from_slice(&answer.stdout).expect("JSON");
    let seen: Vec<String> = seen
        .iter()
        .filter(|flow| flow["uid"].is_null())
        .map(|flow| {
            let to = flow["to"].as_str().expect("an address");
            let port =
                to.rsplit(':').next().filter(|port| port.starts_with("15")).unwrap_or("other");
            let [from, seen] = ["from", "seen"].map(|key| flow[key].as_str().unwrap_or_default());
            format!("{from} to {port}: {seen}")
        })
        .collect();
    insta::assert_snapshot!(seen.join("\n"), @r"
    198.51.100.254 to 15008: elsewhere
    198.51.100.254 to 15090: port 15090 of this pod
    198.51.100.254 to other: port 15006 of this pod
    2001:db8:ffff:ffff::2 to 15008: port 15008 of this pod
    2001:db8:ffff:ffff::2 to 15090: port 15090 of this pod
    2001:db8:ffff:ffff::2 to other: port 15006 of this pod
    ");
    assert_eq!(links(&pod), before);
}

#[test]
fn probe_fails_if_an_inbound_port_bypasses_the_proxy() {
    let pod = namespace();
    let flags = |more: &str| format!("-i * {more}");
    for (installed, asked, port) in
        [("-b * -d 15090", "-b *", ":15090 "), ("-b 80", "-b *", ".253:")]
    {
        succeed(&pod, &[], &flags(installed));
        let disproved = ask(&pod, &["probe", "--probe-timeout", "400ms"], &flags(asked));
        assert_eq!(disproved.status.code(), Some(126), "{installed}: {}", text(&disproved));
        let shown = text(&disproved);
        let is_wrong =
            |line: &str| line.starts_with("WRONG  tcp from outside") && line.contains(port);
        assert!(shown.lines().any(is_wrong), "{installed}: {shown}");
        let report = succeed(&pod, &["probe"], &flags(installed));
        assert!(report.contains("ok  tcp from outside"), "{report}");
    }
}

/// `connect` gives one port to connections with different targets if ports are few; redirected to
/// one listener, one of them then gets another port from NAT.
#[test]
fn probe_tells_flows_apart_if_local_ports_are_few() {
    // One attempt per flow: a second one would hide what the first did not tell apart. A slow machine
    // may need another probe, in a new pod: connections of the last one still have their ports.
    let told_apart = || {
        let pod = namespace();
        let few = || fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40099");
        pod.run(few).expect("a thread").expect("a range");
        succeed(&pod, &[], "-i * -b *");
        let output = ask(&pod, &["probe"], "-i * -b * --probe-timeout 400ms");
        if output.status.success() { Ok(()) } else { Err(text(&output)) }
    };
    until("the flows are told apart", told_apart).expect("a report");
}

/// A pod that masquerades everything, loopback included, changes the source of captured flows. With
/// TPROXY it breaks capture: the proxy's calls to the application are known by their source.
#[test]
fn probe_accepts_masqueraded_sources() {
    for flags in SETS.into_iter().filter(|flags| !flags.contains("TPROXY")) {
        let pod = namespace();
        succeed(&pod, &[], flags);
        let mut nft = Command::new("nft");
        pod.output(nft.args(["-f", "-"]), MASQUERADE).expect(MASQUERADE);
        let report = succeed(&pod, &["probe"], flags);
        assert!(report.contains(" flows match the plan, 0 do not, "), "{report}");
    }
}

/// The kernel removes the pair with its namespace, shortly after the process.
#[test]
fn killed_probe_leaves_no_interface() {
    let pod = namespace();
    succeed(&pod, &[], "-i * -b * -d 15090");
    let before = links(&pod);
    // The probe retries as long as the excluded port bypasses the proxy.
    let flags = "probe --backend nftables -i * -b * --probe-timeout 1m";
    let mut command = istio_init();
    command.args(flags.split(' '));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut probe = pod.run(move || command.spawn().expect("istio-init")).expect("a thread");
    let is = |state: &str, is_reached: &dyn Fn(&str) -> bool| {
        let reached = || {
            let links = links(&pod);
            if is_reached(&links) { Ok(()) } else { Err(links) }
        };
        until(state, reached)
    };
    let linked = is("the pair has an address", &|links| links.contains("198.51.100.253"));
    probe.kill().and_then(|()| probe.wait()).expect("an end");
    linked.expect("a pair");
    is("the pair is gone", &|links| links == before).expect("no pair");
}

#[test]
fn probe_without_cap_sys_admin_tries_pod_flows_only() {
    let pod = namespace();
    succeed(&pod, &[], "-i * -b *");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", "--"]);
    command.arg(istio_init().get_program()).args("probe --backend nftables -i * -b *".split(' '));
    let probe = pod.run(move || command.output().expect("setpriv")).expect("a thread");
    assert!(probe.status.success(), "{}", text(&probe));
    assert!(!String::from_utf8_lossy(&probe.stdout).contains("outside"), "{}", text(&probe));
    insta::assert_snapshot!(String::from_utf8_lossy(&probe.stderr), @"inbound connections were not tried from outside: the kernel rejects `unshare(CLONE_NEWNET)`: Operation not permitted (os error 1); it needs CAP_SYS_ADMIN and CAP_NET_ADMIN");
}

#[test]
fn run_and_verify_count_rules_like_plan() {
    for path in [SEARCH_PATH, "/nonexistent"] {
        let pod = namespace();
        let run = |words: &[&str]| {
            let mut command = istio_init();
            command.args(words).env("PATH", path);
            let output = pod.run(move || command.output().expect("istio-init")).expect("a thread");
            assert!(output.status.success(), "{}", text(&output));
            text(&output)
        };
        let flags = ["-i", "10.0.0.0/8,11.1.0.0/16", "-b", "80,443"];
        let said = run(&flags);
        let count = |table: &str| table.lines().count() - 1;
        let planned = count(&run(&[&["plan"], &flags[..]].concat()));
        let kernel = run(&["plan", "--from-kernel"]);
        let by_iptables = path == SEARCH_PATH;
        // iptables has a line for each element of a list.
        let lines = format!("iptables-nft ({} lines)", count(&kernel));
        let by = if by_iptables { &*lines } else { "nftables" };
        assert_eq!(said, format!("{planned} rules are in force, by {by}, for IPv4\n"));
        let verified = run(&[&["verify"], &flags[..]].concat());
        assert_eq!(verified, format!("installed as planned, by {by}: {planned} rules\n"));
        // Chains have the kernel's names.
        let explained = run(&["explain", "--from-kernel", "--to", "10.0.0.1:80"]);
        let chain = if by_iptables { "ISTIO_OUTPUT" } else { "istio-output" };
        assert!(kernel.contains(chain) && explained.contains(chain), "{kernel}{explained}");
    }
}

/// The validation container has the proxy's user and no capability.
#[test]
fn validation_without_capabilities_tries_own_flows() {
    let pod = namespace();
    let flags = "--run-validation --skip-rule-apply -i * -b *";
    // The build folder may be inaccessible to other users.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("istio-init");
    // Another process copies the file: a program open for writing here cannot be run.
    let mut install = Command::new("install");
    install.args(["-m", "755"]).arg(istio_init().get_program()).arg(&program);
    netns::succeed(&mut install, "").expect("a copy");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("open to all");
    let validate = |limit: &'static str| {
        let owner = Owner { uid: 1337, gid: 1337 };
        let mut command = Command::new(&program);
        command.env_clear().args(["--backend", "nftables"]).args(flags.split(' '));
        command.args(["--probe-timeout", limit]);
        pod.run_as(owner, move || command.output().expect("istio-init")).expect("a thread")
    };
    assert_eq!(validate("400ms").status.code(), Some(126), "without rules");
    succeed(&pod, &[], "-i * -b *");
    let passed = validate("5s");
    assert_eq!(passed.status.code(), Some(0), "{}", text(&passed));
    assert!(text(&passed).contains("not tried"), "{}", text(&passed));
}

#[test]
fn iptables_rules_can_be_planned_and_explained() {
    for variant in ["nft", "legacy"] {
        for flags in SETS {
            let pod = namespace();
            let forced = format!("--force-iptables-binary={variant}");
            ask_anything(&pod, &[forced.as_str()], flags, 0);
            let verified = ask_anything(&pod, &["verify"], flags, 0);
            let by = format!("installed as planned, by iptables-{variant}");
            assert!(verified.starts_with(&by), "{flags}: {verified}");
            for packet in PACKETS {
                let explain = |words: &[&str], flags: &str| {
                    let words = [&["explain"], words].concat();
                    let packet: Vec<&str> = packet.split(' ').collect();
                    fate(&ask_anything(&pod, &[words, packet].concat(), flags, 0))
                };
                let (installed, planned) = (explain(&["--from-kernel"], ""), explain(&[], flags));
                assert_eq!(installed, planned, "{variant} {flags}: {packet}");
            }
            let ports = |words: &[&str], flags: &str| {
                let picture = ask_anything(&pod, &[words, &["-o", "mermaid"]].concat(), flags, 0);
                ["15001", "15006", "15053"].map(|port| picture.contains(port))
            };
            let drawn = ports(&["plan", "--from-kernel"], "");
            assert_eq!(drawn, ports(&["plan"], flags), "{variant} {flags}");
            ask_anything(&pod, &["probe", "--from-kernel"], "", 0);
        }
    }
}

#[test]
fn rules_of_istio_iptables_can_be_explained() {
    let settings = [
        Settings::injected(),
        Settings::injected_dual().with('i', "10.0.0.0/8,fd00::/8").with('x', "10.96.0.0/12"),
        // With TPROXY, Istio captures inbound traffic of the tunnel port; this program does not.
        Settings::injected().with('m', "TPROXY").with('o', "25,3306").with('e', "15007"),
        Settings::default().with('q', "443").with('b', "80"),
    ];
    for settings in settings {
        let pod = Pod::create();
        pod.istio(&settings);
        let ask = |words: &[&str], settings: &[String]| {
            let mut command = istio_init();
            command.args(words).args(settings).env("PATH", SEARCH_PATH);
            pod.namespace.output(&mut command, "").expect("an answer")
        };
        let planned = settings.command_line();
        if settings.flag('m') != "TPROXY" {
            // With auto, the installed rules are compared, whichever backend installed them.
            let flags: Vec<String> =
                planned[1..].iter().filter(|word| !word.contains("backend")).cloned().collect();
            assert!(ask(&["verify"], &flags).contains(", by iptables-"), "{settings:?}");
        }
        for packet in PACKETS {
            let packet: Vec<&str> = packet.split(' ').collect();
            let explain = |words: &[&str], settings: &[String]| {
                fate(&ask(&[&["explain"], words, &packet].concat(), settings))
            };
            // The first word is the program's name in Istio.
            let (installed, planned) =
                (explain(&["--from-kernel"], &[]), explain(&[], &planned[1..]));
            assert_eq!(installed, planned, "{settings:?} {packet:?}");
        }
    }
}

#[test]
fn verify_shows_and_repairs_iptables_differences() {
    let pod = namespace();
    let flags = "-m TPROXY -i * -b * --dual-stack";
    ask_anything(&pod, &["--force-iptables-binary=nft"], flags, 0);
    for (tamper, shown) in [
        (
            "iptables-nft -t nat -I ISTIO_OUTPUT -p tcp --dport 99 -j RETURN",
            "+     -p tcp -m tcp --dport 99 -j RETURN",
        ),
        ("ip6tables-nft -t nat -F ISTIO_REDIRECT", "-     -p tcp -j REDIRECT --to-ports 15001"),
        ("iptables-nft -t nat -D OUTPUT -j ISTIO_OUTPUT", "-     -j ISTIO_OUTPUT"),
        ("ip -6 address delete ::6/128 dev lo", "- address ::6/128 on lo"),
        ("ip -4 rule delete priority 15006", "- IPv4 rule: mark 1337 to table 133, local route"),
        ("ip route flush table 133", "- IPv4 rule: mark 1337 to table 133, local route"),
    ] {
        let mut words = tamper.split(' ');
        let mut command = Command::new(words.next().expect("a program"));
        pod.output(command.args(words), "").expect(tamper);
        let differs = ask_anything(&pod, &["verify"], flags, 3);
        assert!(differs.lines().any(|line| line == shown), "{tamper}: {differs}");
        ask_anything(&pod, &["verify", "--reconcile"], flags, 0);
        ask_anything(&pod, &["verify"], flags, 0);
    }
}

#[test]
fn verify_names_rules_of_another_backend() {
    let backends = [
        ("--backend=nftables", "nftables"),
        ("--force-iptables-binary=nft", "iptables-nft"),
        ("--force-iptables-binary=legacy", "iptables-legacy"),
    ];
    let flags = "-i * -b *";
    for (first, installed) in backends {
        for (second, planned) in backends.into_iter().filter(|(it, _)| *it != first) {
            let pod = namespace();
            ask_anything(&pod, &[first], flags, 0);
            let report = ask_anything(&pod, &["verify", second], flags, 3);
            let reason = format!(
                "error: rules are installed by {installed}, and the plan is for {planned}\n"
            );
            assert!(report.starts_with(&reason), "{report}");
            ask_anything(&pod, &["verify", second, "--reconcile"], flags, 0);
            ask_anything(&pod, &["verify", second], flags, 0);
        }
    }
}

#[test]
fn log_as_json_writes_json_lines() {
    let pod = namespace();
    let refused = ask(&pod, &["--log_as_json"], "-p 0 -z 0");
    assert_eq!(refused.status.code(), Some(1));
    let lines = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        assert_eq!(line["level"], "error");
        assert!(line["msg"].as_str().is_some_and(|text| text.contains("is not a port")), "{line}");
    }
}

pub(crate) fn namespace() -> Namespace {
    // There is no listener: packets end at the pod's link.
    let pod = Namespace::create().expect("a namespace");
    pod.ip("link add eth0 type veth peer name peer0
         link set eth0 addrgenmode none up
         link set peer0 addrgenmode none up
         address add 192.168.77.2/24 dev eth0
         address add fd77::2/64 dev eth0 nodad
         route add default via 192.168.77.1
         route add default via fd77::1")
        .expect("a link");
    pod
}

/// Returns interfaces, addresses and routes.
fn links(pod: &Namespace) -> String {
    let list = |words: &str| {
        let mut ip = Command::new("ip");
        pod.output(ip.args(words.split(' ')), "").expect(words)
    };
    ["-o link", "-o address", "route show table all", "-6 route show table all"].map(list).concat()
}

pub(crate) fn ask(pod: &Namespace, words: &[&str], flags: &str) -> Output {
    let mut command = istio_init();
    command.args(words).args(["--backend", "nftables"]);
    if !flags.is_empty() {
        command.args(flags.split(' '));
    }
    pod.run(move || command.output().expect("istio-init")).expect("a thread")
}

fn succeed(pod: &Namespace, words: &[&str], flags: &str) -> String {
    let output = ask(pod, words, flags);
    assert!(output.status.success(), "{words:?} {flags}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs without `--backend` unless given, with all programs in PATH.
pub(crate) fn ask_anything(pod: &Namespace, words: &[&str], flags: &str, code: i32) -> String {
    let mut command = istio_init();
    command.args(words).env("PATH", SEARCH_PATH);
    if !flags.is_empty() {
        command.args(flags.split(' '));
    }
    let output = pod.run(move || command.output().expect("istio-init")).expect("a thread");
    assert_eq!(output.status.code(), Some(code), "{words:?} {flags}: {}", text(&output));
    text(&output)
}

/// Returns the result line of an explanation, and the deciding setting.
fn fate(explanation: &str) -> (String, Option<String>) {
    let mut lines = explanation.lines().rev().filter(|line| !line.starts_with("rules of others"));
    let cause = lines.next().unwrap_or_default();
    let setting = cause.rsplit_once("comes from ").map(|(_, setting)| setting.to_owned());
    match &setting {
        Some(_) => (lines.next().unwrap_or_default().to_owned(), setting),
        None => (cause.to_owned(), None),
    }
}

fn text(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn without_remarks(script: &str) -> String {
    let commands = script.lines().filter(|line| !line.starts_with('#'));
    commands.map(|line| line.to_owned() + "\n").collect()
}

const MASQUERADE: &str = "table inet others {
    chain post {
        type nat hook postrouting priority 100
        masquerade
    }
}";

/// Packets that match rules of every kind.
const PACKETS: [&str; 12] = [
    "--to 10.1.2.3:80 --uid 1000 --gid 1000",
    "--to 10.96.0.1:443 --uid 1000 --gid 1000",
    "--to 9.9.9.9:443 --uid 1000 --gid 1000",
    "--to 9.9.9.9:3306 --uid 1000 --gid 1000",
    "--to 10.1.2.3:80 --uid 1337 --gid 1",
    "--to 10.1.2.3:80 --uid 1 --gid 1337",
    "--to 192.168.77.2:80 --interface lo --uid 1337 --gid 1337",
    "--to 127.0.0.1:80 --uid 1000 --gid 1000",
    "--to 9.9.9.9:53 --protocol udp --uid 1000 --gid 1000",
    "--to 192.168.77.2:80 --from 9.9.9.9:4000 --direction in",
    "--to 192.168.77.2:15008 --from 9.9.9.9:4000 --direction in",
    "--to [fd00::1]:80 --uid 1000 --gid 1000",
];

/// Flags for rules of every kind.
const SETS: [&str; 6] = [
    "-i * -b * -d 15090,15021,15020 --dual-stack",
    "-i 10.0.0.0/8,172.16.0.0/12,fd00::/8 -x 10.96.0.0/12 -b 80,8000:9000 -o 25,3306 --dual-stack",
    "-i * -b * -c net1,tap+ -q 443 -u 1337,1400 -g 2000 --drop-invalid",
    "-i * -b * --redirect-dns --capture-all-dns --dual-stack",
    "-i * -b * -m TPROXY -d 15020,15021 --redirect-dns --capture-all-dns --dual-stack",
    "-i 127.0.0.0/8,10.0.0.0/8 -b  -k tap0",
];
