//! Tables of command lines.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<(Command, Vec<String>), String> {
    let words = line.split_whitespace().map(OsString::from);
    Arguments::parse_lenient(words)
        .map(|(arguments, unknown)| (arguments.command, unknown))
        .map_err(|error| error.to_string())
}

fn proxy(line: &str) -> (Box<ProxyArgs>, Vec<String>) {
    match parse(line) {
        Ok((Command::Proxy(proxy), unknown)) => (proxy, unknown),
        other => panic!("{other:?}"),
    }
}

#[test]
fn command_line_is_well_formed() {
    Arguments::command().debug_assert();
}

#[test]
fn injected_arguments_are_parsed() {
    let (proxy, unknown) = proxy(
        "pilot-agent proxy sidecar --domain shop.svc.cluster.local \
         --proxyLogLevel=warning --proxyComponentLogLevel=misc:error \
         --log_output_level=default:info --log_as_json --concurrency 2",
    );
    assert_eq!((proxy.role, proxy.concurrency), (RoleArg::Sidecar, Some(2)));
    assert_eq!(proxy.domain.as_deref(), Some("shop.svc.cluster.local"));
    assert!(unknown.is_empty(), "{unknown:?}");

    let drain = parse("pilot-agent request --debug-port=15020 POST drain");
    let Ok((Command::Request(request), _)) = drain else { panic!("{drain:?}") };
    assert_eq!((request.port, request.path.as_str()), (15020, "/drain"));

    let Ok((Command::Wait(wait), _)) = parse("pilot-agent wait") else { panic!("no wait") };
    assert_eq!(wait.timeout, Duration::from_secs(60));
}

#[test]
fn unknown_flags_of_proxy_are_returned() {
    let (parsed, unknown) =
        proxy("pilot-agent proxy --trust-domain=a --old b router --alone --domain d");
    assert_eq!(unknown, ["--trust-domain", "--old", "--alone"]);
    assert_eq!((parsed.role, parsed.domain.as_deref()), (RoleArg::Router, Some("d")));
    let (parsed, unknown) = proxy("pilot-agent proxy -x a -yb -z=c --domain d router");
    assert_eq!(unknown, ["-x", "-y", "-z"]);
    assert_eq!((parsed.role, parsed.domain.as_deref()), (RoleArg::Router, Some("d")));
    let (parsed, unknown) = proxy("pilot-agent proxy --old sidecar");
    assert_eq!((parsed.role, &*unknown), (RoleArg::Sidecar, &["--old".to_owned()][..]));
}

#[test]
fn unknown_flags_of_other_commands_are_rejected() {
    let error = parse("pilot-agent wait --periodMilis 5").unwrap_err();
    assert!(error.contains("--periodMillis"), "{error}");
}

#[test]
fn last_value_of_a_repeated_flag_counts() {
    let line = "pilot-agent proxy --domain a --concurrency 1 --domain b --concurrency=2 \
                --log_as_json --log_as_json=false --hotRestart --hotRestart=false";
    let (parsed, _) = proxy(line);
    assert_eq!((parsed.domain.as_deref(), parsed.concurrency), (Some("b"), Some(2)));
    assert_eq!(parsed.hot_restart, Some(false));
}

#[test]
fn invalid_values_of_flags_are_usage_errors() {
    for line in [
        "proxy --discoveryAddress=foo",
        "proxy --discoveryAddress=https://istiod:15012",
        "proxy --serviceCluster=",
        "proxy --zipkinAddress=foo",
        "proxy --concurrency 65536",
        "proxy --configPath=",
        "proxy --binaryPath=",
        "proxy --id=web",
        "proxy --ip=",
        "proxy --ip=$(INSTANCE_IP)",
        "proxy --statsdUdpAddress=foo:8125",
        "proxy --statsdUdpAddress=10.0.0.1",
        "proxy --proxyLogLevel=loud",
        "proxy --proxyComponentLogLevel=misc",
        "proxy --proxyComponentLogLevel=misc:error,upstream:loud",
        "wait --url=foo",
        "wait --url=http://localhost:65536/",
        "wait --url=http://localhost:0/",
        "wait --timeoutSeconds=0",
        "wait --timeoutSeconds=18446744073709551615",
        "wait --timeoutSeconds -1",
        "wait --requestTimeoutMillis=0",
        "wait --periodMillis=0",
        "wait --url=https://localhost/",
        "request --debug-port=0 GET /x",
    ] {
        let words = std::iter::once("pilot-agent").chain(line.split(' ')).map(OsString::from);
        let error = Arguments::parse_lenient(words).map(drop).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
    }
    for (method, path, expected) in
        [("G T", "/x", "expected an HTTP method"), ("GET", "/a b", "expected the path of a URL")]
    {
        let words = ["pilot-agent", "request", method, path].map(OsString::from);
        let error = Arguments::parse_lenient(words).map(drop).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(expected), "{error}");
    }
    for line in [
        "proxy --proxyComponentLogLevel= --proxyLogLevel=off --zipkinAddress=$(HOST_IP):9411",
        "proxy --proxyComponentLogLevel=misc:error,upstream:debug --discoveryAddress=[::1]:15012",
        "request --debug-port=31020 get x",
        "wait --url=http://localhost:/",
        "wait --url=http://[::1]/",
        "wait --url=http://[::1]:15021/",
    ] {
        parse(&format!("pilot-agent {line}")).unwrap();
    }
}

#[test]
fn flag_whose_value_is_not_text_is_named() {
    let parse = |words: &[&[u8]]| {
        let program = [&b"pilot-agent"[..]].into_iter().chain(words.iter().copied());
        Arguments::parse_lenient(program.map(|word| OsString::from_vec(word.to_vec()))).map(drop)
    };
    for (words, named) in [
        (&[&b"proxy"[..], b"--foo=\xff"][..], "error: the value of '--foo' is not UTF-8 text; "),
        (&[b"proxy", b"--domain", b"\xff"], "error: the value of '--domain' is not UTF-8 text; "),
        (&[b"wait", b"\xff"], "error: argument 2 is not UTF-8 text; "),
    ] {
        let error = parse(words).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().starts_with(named), "{error}");
    }
    parse(&[b"istio-iptables", b"-p", b"\xff"]).unwrap();
}

#[test]
fn port_that_does_not_exist_is_named() {
    let error = parse("pilot-agent wait --url=http://localhost:99999/x").unwrap_err();
    let expected = "'--url <URL>': the port \"99999\" is not a number from 1 to 65535";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn negative_number_is_the_value_of_its_flag() {
    let error = parse("pilot-agent proxy --concurrency -1").unwrap_err();
    assert!(error.contains("'-1' for '--concurrency <NUMBER>': -1 is not in"), "{error}");
    let (parsed, unknown) = proxy("pilot-agent proxy --old -1 router");
    assert_eq!((parsed.role, unknown), (RoleArg::Router, vec!["--old".to_owned()]));
}

#[test]
fn version_is_a_flag() {
    let version = parse("pilot-agent --version").unwrap_err();
    assert_eq!(version, format!("pilot-agent {}\n", program_version::text()));
}

#[test]
fn help_is_a_command() {
    for line in ["pilot-agent help", "pilot-agent help proxy"] {
        let help = parse(line).unwrap_err();
        assert!(help.contains("Usage: pilot-agent"), "{help}");
    }
}

#[test]
fn hidden_commands_pass_flags_through() {
    let parsed = parse("pilot-agent istio-iptables -p 15001 --dry-run");
    let Ok((Command::IstioIptables(iptables), _)) = parsed else { panic!("{parsed:?}") };
    assert_eq!(iptables.arguments, ["-p", "15001", "--dry-run"]);
    let parsed = parse("pilot-agent envoy-child 7 /usr/local/bin/envoy -c a.json --base-id 3");
    let Ok((Command::EnvoyChild(child), _)) = parsed else { panic!("{parsed:?}") };
    assert_eq!((child.parent, child.arguments.len()), (7, 4));
}

#[test]
fn flags_without_a_function_are_reported() {
    let (parsed, _) = proxy("pilot-agent proxy --templateFile /a.tmpl");
    let rejected = parsed.absent.rejected().unwrap();
    assert!(rejected.starts_with("--templateFile /a.tmpl: "), "{rejected}");
    let (parsed, _) = proxy(
        "pilot-agent proxy --stsPort=15463 --tokenManagerPlugin GoogleTokenExchange --profiling \
         --serviceregistry Consul --discoveryRefreshDelay 1s",
    );
    assert_eq!((parsed.absent.rejected(), parsed.absent.warnings().len()), (None, 5));
    let (parsed, _) = proxy("pilot-agent proxy --stsPort=0 --profiling=false");
    assert_eq!(parsed.absent.warnings(), Vec::<String>::new());
}

#[test]
fn unknown_log_level_is_named() {
    let error = parse("pilot-agent proxy router --log_output_level=default:loud").unwrap_err();
    assert!(error.contains("\"default:loud\" is not a list of"), "{error}");
}
