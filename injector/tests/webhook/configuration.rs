//! Configuration and certificate from files, replaced while the program runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::certificate::issue;
use crate::client::{Client, plain_get};
use crate::program::{Program, command, until};

#[test]
fn invalid_file_leaves_the_last_good_configuration() {
    let directory = TempDir::new().unwrap();
    let config = directory.path().join("config.yaml");
    replace(&config, "policy: enabled\n");
    let file = config.to_str().unwrap().to_owned();
    let program =
        Program::start_in(directory, &["--injectConfigFile", &file, "--reload-interval", "20ms"]);
    assert_eq!(injected(&program), "injected");

    replace(&config, "policy: [\n");
    let refusal = program.log("configuration rejected");
    assert!(refusal["problem"].as_str().unwrap().contains(&file), "{refusal}");
    assert_eq!(refusal["kept_generation"], 1);
    program.metric_becomes("sidecar_injector_configuration_refused_total", 1.0);
    assert!(program.metric("sidecar_injector_configuration_refused_timestamp_seconds") > 0.0);
    program.metric_becomes("sidecar_injector_configuration_generation", 1.0);
    assert_eq!(plain_get(program.admin, "/ready").status, 200);
    assert_eq!(injected(&program), "injected");

    replace(&config, "policy: disabled\n");
    program.metric_becomes("sidecar_injector_configuration_generation", 2.0);
    assert_eq!(injected(&program), "skipped");

    fs::remove_file(&config).unwrap();
    program.metric_becomes("sidecar_injector_configuration_refused_total", 2.0);
    assert_eq!(injected(&program), "skipped");
}

#[test]
fn unknown_keys_are_logged_at_each_load() {
    let directory = TempDir::new().unwrap();
    let config = directory.path().join("config.yaml");
    replace(&config, "policy: enabled\nneverInjectSelectors: []\n");
    let file = config.to_str().unwrap().to_owned();
    let program =
        Program::start_in(directory, &["--injectConfigFile", &file, "--reload-interval", "20ms"]);
    let odd = "sidecar_injector_configuration_notices";
    program.metric_becomes(odd, 1.0);
    replace(&config, "policy: enabled\nneverInjectSelectors: [] # still\n");
    program.metric_becomes("sidecar_injector_configuration_generation", 2.0);
    let line = program.log("configuration warning");
    assert_eq!(line["document"], format!("--injectConfigFile {file}"), "{line}");
    assert_eq!(line["key"], "neverInjectSelectors", "{line}");
    assert_eq!(line["problem"], "unknown key; did you mean neverInjectSelector?", "{line}");
    assert_eq!(injected(&program), "injected");
    replace(&config, "policy: enabled\n");
    program.metric_becomes(odd, 0.0);
    assert_eq!(program.count("configuration warning"), 2);
}

#[test]
fn undefined_default_template_is_an_internal_error() {
    let directory = TempDir::new().unwrap();
    let config = directory.path().join("config.yaml");
    replace(&config, "defaultTemplates: [nope]\n");
    let file = config.to_str().unwrap().to_owned();
    let program = Program::start_in(directory, &["--injectConfigFile", &file]);
    program.metric_becomes("sidecar_injector_configuration_notices", 1.0);
    assert_eq!(program.count("configuration warning"), 1);
    let pod = json!({"metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let response = program.connect().review("/inject", &json!({"uid": "u", "object": pod}));
    assert_eq!(response["allowed"], false, "{response}");
    assert_eq!(response["status"]["code"], 500, "{response}");
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.contains("defaultTemplates of the configuration"), "{message}");
}

#[test]
fn mounted_config_map_is_applied_as_a_whole() {
    let directory = TempDir::new().unwrap();
    let mount = directory.path().to_owned();
    let version = |name: &str, policy: &str, hub: &str| {
        fs::create_dir(mount.join(name)).unwrap();
        fs::write(mount.join(name).join("config"), format!("policy: {policy}\n")).unwrap();
        fs::write(mount.join(name).join("values"), format!("global: {{hub: {hub}}}\n")).unwrap();
    };
    version("..1", "enabled", "one");
    symlink("..1", mount.join("..data")).unwrap();
    for file in ["config", "values"] {
        symlink(Path::new("..data").join(file), mount.join(file)).unwrap();
    }
    let path = |file: &str| mount.join(file).to_str().unwrap().to_owned();
    let (config, values) = (path("config"), path("values"));
    let program = Program::start_in(
        directory,
        &["--injectConfigFile", &config, "--valuesFile", &values, "--reload-interval", "20ms"],
    );
    assert_eq!(program.metric("sidecar_injector_configuration_generation").to_string(), "1");
    // Update of a volume as the kubelet does it.
    version("..2", "disabled", "two");
    symlink("..2", mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    fs::remove_dir_all(mount.join("..1")).unwrap();
    until("the new version is in use", || injected(&program) == "skipped");
    assert_eq!(program.metric("sidecar_injector_configuration_generation").to_string(), "2");
    assert_eq!(program.metric("sidecar_injector_configuration_refused_total").to_string(), "0");
}

#[test]
fn invalid_file_at_startup_ends_the_program() {
    let directory = TempDir::new().unwrap();
    let config = directory.path().join("config.yaml");
    fs::write(&config, "policy: [\n").unwrap();
    let missing = directory.path().join("missing.pem");
    let lost = directory.path().join("kubeconfig");
    fs::write(&lost, r#"{"current-context": "gone"}"#).unwrap();
    let (config, missing) = (config.to_str().unwrap(), missing.to_str().unwrap());
    let lost = lost.to_str().unwrap();
    let current =
        format!("--kubeconfig {lost}: it has no context `gone`, which is its current-context");
    let map = directory.path().join("map.yaml");
    fs::write(&map, "apiVersion: v1\nkind: ConfigMap\ndata: {values: '{}'}\n").unwrap();
    let whole = format!("{}: this is a ConfigMap: give its `.data.values`", map.display());
    let table: [(&[&str], &str); 7] = [
        (&["--injectConfigFile", config], config),
        (&["--valuesFile", map.to_str().unwrap()], &whole),
        (&["--valuesFile", missing], "--valuesFile"),
        (&["--tlsCertFile", missing, "--tlsKeyFile", missing], "--tlsCertFile"),
        (&["--tlsCertFile", missing], "--tlsKeyFile"),
        (&["--kubeconfig", missing], "--kubeconfig"),
        (&["--kubeconfig", lost], &current),
    ];
    for (flags, named) in table {
        let addresses = ["--httpsAddr", "127.0.0.1:0", "--adminAddr", "127.0.0.1:0"];
        let output = command().args(addresses).args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {said}");
        assert!(said.contains(named), "{flags:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn invalid_kubernetes_name_ends_the_program() {
    for (flag, value) in [
        ("--revision", "Canary/1"),
        ("--namespace", "../other"),
        ("--service", ""),
        ("--cluster-domain", ".."),
        ("--extra-san", "two words"),
    ] {
        let addresses = ["--httpsAddr", "127.0.0.1:0", "--adminAddr", "127.0.0.1:0"];
        let output = command().args(addresses).args([flag, value]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flag}: {said}");
        assert!(said.contains(flag) && said.contains(value), "{flag}: {said}");
    }
}

#[test]
fn certificate_files_are_watched() {
    let directory = TempDir::new().unwrap();
    issue(directory.path());
    let path = |file: &str| directory.path().join(file).to_str().unwrap().to_owned();
    let (certificate, key) = (path("tls.crt"), path("tls.key"));
    let flags = ["--tlsCertFile", &certificate, "--tlsKeyFile", &key, "--reload-interval", "20ms"];
    let program = Program::spawn(directory, &flags);
    let mut first = program.connect();
    assert_eq!(first.ask("GET", "/ready", "", b"").status, 200);

    let ca = issue(&program.path(""));
    until("the new certificate is served", || Client::connect(program.https, &ca).is_ok());
    assert_ne!(Client::connect(program.https, &ca).unwrap().certificate(), first.certificate());
    // An open connection continues.
    assert_eq!(first.ask("GET", "/ready", "", b"").status, 200);
    assert!(program.metric("sidecar_injector_certificate_not_after_timestamp_seconds") > 0.0);
}

/// Returns the result for a plain pod.
fn injected(program: &Program) -> &'static str {
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "app", "image": "app"}]}});
    let request = json!({"uid": "u", "namespace": "shop", "object": pod});
    let response = program.connect().review("/inject", &request);
    if response["patch"].is_string() { "injected" } else { "skipped" }
}

/// Replaces a file atomically, so that no reader finds it empty.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}
