//! The command line of the program.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

use std::net::TcpListener;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pilot-discovery")).args(arguments).output().unwrap()
}

#[test]
fn invalid_flag_exits_2_and_is_named() {
    for (arguments, flag) in [
        (&["discovery", "--grpcAddr", "15010"][..], "--grpcAddr"),
        (&["discovery", "--grpcAddr", ":15010"], "--grpcAddr"),
        (&["discovery", "--registries", "Consul"], "--registries"),
        (&["discovery", "--registries", "Files"], "--configDir"),
        (&["discovery", "--domain", "a b"], "--domain"),
        (&["discovery", "--revision", "x-"], "--revision"),
        (&["discovery", "--log", "x=y=z"], "--log"),
        (&["discovery", "--unknown"], "--unknown"),
        (&["discovery", "--configDir", "."], "--configDir"),
        (
            &["discovery", "--registries", "Files", "--configDir", ".", "--kubeconfig", "x"],
            "--kubeconfig",
        ),
        (&["discovery", "--namespace", "A_b"], "--namespace"),
        (&["discovery", "--clusterID", ""], "--clusterID"),
        (&["discovery", "--tokenAudiences", "a,"], "--tokenAudiences"),
    ] {
        let output = run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(flag), "{arguments:?}: {text}");
    }
}

#[test]
fn invalid_variable_exits_2_and_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilot-discovery"));
    command.args(["discovery", "--registries", "Files", "--configDir", "/nonexistent"]);
    let output = command.env("PILOT_MAX_REQUESTS_PER_SECOND", "many").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("PILOT_MAX_REQUESTS_PER_SECOND has the invalid value"), "{text}");
}

#[test]
fn missing_directory_of_objects_ends_the_program() {
    let words = ["discovery", "--registries", "Files", "--configDir", "/nonexistent"];
    let output = run(&[&words[..], &["--httpAddr", "", "--monitoringAddr", ""]].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("--configDir /nonexistent: "), "{text}");
}

#[test]
fn all_taken_ports_are_named_before_anything_starts() {
    let taken = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let taken = taken.each_ref().map(|listener| listener.local_addr().unwrap().to_string());
    let words = ["discovery", "--registries", "Files", "--configDir", "."];
    let addresses = ["--httpAddr", &taken[0], "--monitoringAddr", &taken[1]];
    let output = run(&[&words[..], &addresses].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for (flag, address) in ["--httpAddr", "--monitoringAddr"].iter().zip(&taken) {
        assert!(text.contains(&format!("{flag}: binding {address}")), "{text}");
    }
    assert!(!text.contains("serving"), "{text}");
}

#[test]
fn missing_or_invalid_settings_end_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let mesh = folder.path().join("mesh.yaml").display().to_string();
    let directory = folder.path().display().to_string();
    let words = ["discovery", "--registries", "Files", "--configDir", &directory];
    let others = ["--httpAddr", "", "--monitoringAddr", "", "--meshConfig", &mesh];
    for expected in ["No such file", "outboundTrafficPolicy.mode: \"ANY\" is not one of"] {
        let output = run(&[&words[..], &others].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("--meshConfig {mesh}: {expected}")), "{text}");
        std::fs::write(&mesh, "outboundTrafficPolicy: {mode: ANY}").unwrap();
    }
}

#[test]
fn version_is_printed() {
    let text = |arguments| String::from_utf8(run(arguments).stdout).unwrap();
    let short = text(&["version", "--short"]);
    assert_eq!(short.trim(), env!("CARGO_PKG_VERSION"));
    assert_eq!(
        text(&["version"]),
        format!("pilot-discovery version: {}\n", program_version::title())
    );
    assert_eq!(text(&["--version"]), format!("pilot-discovery {}\n", program_version::text()));
    let document: serde_json::Value =
        serde_json::from_str(&text(&["version", "-o", "json"])).unwrap();
    assert_eq!(document["clientVersion"]["gitRevision"], program_version::COMMIT);
}
