//! Manifests through the commands of `istioctl` that take files.

use std::path::Path;
use std::process::{Command, Output};

use e2e::programs::own_programs;
use e2e::report_files::folder;

/// A command on a file: its exit code, texts in its output, and texts that are not.
struct Expected {
    command: &'static str,
    file: &'static str,
    code: i32,
    says: &'static [&'static str],
    never: &'static [&'static str],
}

const fn row(
    command: &'static str,
    file: &'static str,
    code: i32,
    says: &'static [&'static str],
) -> Expected {
    Expected { command, file, code, says, never: &[] }
}

#[test]
fn commands_give_the_right_answer() {
    let Some(folder) = folder("manifests of public reports").unwrap() else { return };
    let folder = folder.join("toolkit");
    let mut problems = Vec::new();
    for Expected { command, file, code, says, never } in EXPECTED {
        let ran = istioctl(&folder, command, file);
        let text = [&*ran.stdout, &ran.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        let missing = says.iter().filter(|says| !text.contains(**says));
        let wrong = never.iter().filter(|never| text.contains(**never));
        let texts: Vec<_> = missing.chain(wrong).collect();
        if ran.status.code() != Some(*code) || !texts.is_empty() {
            problems.push(format!("{command} {file}: {}, {texts:?}\n{text}", ran.status));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Objects that are not injected come out as they are, and so do injected ones after `uninject`.
#[test]
fn files_come_back_after_uninject() {
    let Some(folder) = folder("uninject of public reports").unwrap() else { return };
    let folder = folder.join("toolkit");
    for (file, written_anew) in INJECTED {
        let given = std::fs::read_to_string(folder.join(file)).unwrap();
        let injected = istioctl(&folder, "kube-inject -f", file);
        assert!(injected.status.success(), "{file}: {injected:?}");
        let injected = String::from_utf8(injected.stdout).unwrap();
        let is_left_alone = ["host-network", "knative", "configmap", "windows"];
        let is_left_alone = is_left_alone.iter().any(|name| file.contains(name));
        assert_eq!(injected == given, is_left_alone, "{file}: {injected}");
        let written = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(written.path(), injected).unwrap();
        let back = istioctl(&folder, "uninject -f", written.path().to_str().unwrap());
        let back = String::from_utf8(back.stdout).unwrap();
        let expected = written_anew.iter().fold(given, |text, (old, new)| text.replace(old, new));
        assert_eq!(back, expected, "{file}");
    }
}

fn istioctl(folder: &Path, command: &str, file: &str) -> Output {
    let program = own_programs().unwrap().join("istioctl");
    let mut run = Command::new(program);
    run.args(command.split(' ')).arg(file).current_dir(folder);
    // No cluster.
    run.env_remove("KUBECONFIG").env("HOME", folder);
    run.output().unwrap()
}

const HELM: &[&str] = &["hint: this looks like a template of a Helm chart", "helm template CHART"];
const INJECT: &str = "kube-inject -f";

const EXPECTED: &[Expected] = &[
    row(INJECT, "helm-unrendered.yaml", 1, HELM),
    row("uninject -f", "helm-unrendered.yaml", 1, HELM),
    row("analyze --use-kube=false", "helm-unrendered.yaml", 1, HELM),
    row("x describe pod -f", "helm-unrendered.yaml", 1, HELM),
    row("x check-inject -f", "helm-unrendered.yaml", 1, HELM),
    row(INJECT, "host-network.yaml", 0, &["(host_network)", "0 injected, 1 skipped"]),
    row("kube-inject --strict -f", "host-network.yaml", 1, &["host_network"]),
    row(INJECT, "job-onfailure-hold.yaml", 0, &["2 injected"]),
    row(INJECT, "knative-service.yaml", 0, &["(knative)", "hint: let the webhook inject"]),
    row(
        INJECT,
        "misplaced-annotations.yaml",
        0,
        &[
            "label sidecar.istio.io/inject of the Deployment is \"false\"",
            "(misplaced_opt_out)\n  hint: move it to spec.template.metadata.labels",
            "annotation proxy.istio.io/config of the Deployment has no effect",
            "annotation traffic.sidecar.istio.io/excludeOutboundPorts of the Deployment",
        ],
    ),
    row(INJECT, "openshift-own-proxy.yaml", 0, &["runAsUser: 1000650000", "(proxy_user)"]),
    row(INJECT, "outdented-257-crd.yaml", 0, &["1 injected"]),
    row(INJECT, "outdented-257-pod.yaml", 0, &["1 injected"]),
    row("x describe pod -f", "outdented-257-crd.yaml", 0, &["Sidecar: native sidecar"]),
    row("x describe pod -f", "outdented-257-pod.yaml", 0, &["Sidecar: native sidecar"]),
    row("analyze --use-kube=false", "outdented-257-crd.yaml", 0, &["No validation issues"]),
    row("analyze --use-kube=false", "outdented-257-pod.yaml", 0, &["No validation issues"]),
    row("analyze --use-kube=false", "outdented-400-configmap.yaml", 0, &["No validation issues"]),
    // Without a cluster there is no webhook to ask, and the file has been read.
    row("x check-inject -f", "outdented-257-pod.yaml", 1, &["kubeconfig"]),
    Expected {
        never: &["warning: "],
        ..row(INJECT, "plain.yaml", 0, &["1 injected", "sidecar.istio.io/status"])
    },
    row(
        INJECT,
        "probe-host.yaml",
        0,
        &[
            "httpGet: {host: upstream.example, path: /get, port: 80}",
            "tcpSocket: {host: db.example, port: 5432}",
            "httpGet: {host: registry.platform.svc, path: /deregister, port: 8080}",
            "(probe_of_the_node)",
        ],
    ),
    Expected {
        never: &["prometheus.io/scheme: https"],
        ..row(
            INJECT,
            "prometheus-https.yaml",
            0,
            &[r#"prometheus.io/scheme: "http""#, r#""port":"8443","scheme":"https""#],
        )
    },
    row(INJECT, "sctp-port.yaml", 0, &["1 injected"]),
    row(
        "x describe pod -f",
        "sctp-port.yaml",
        0,
        &["38412 has protocol SCTP, which is not captured"],
    ),
    row(INJECT, "two-meshes.yaml", 0, &["sidecar of Linkerd", "(other_mesh)"]),
    row(
        INJECT,
        "user-volume-typo.yaml",
        1,
        &["unknown field comfigMap", "did you mean configMap?"],
    ),
    row("analyze --use-kube=false", "user-volume-typo.yaml", 79, &["IST0125", "comfigMap"]),
    row(
        "kube-inject -f plain.yaml --valuesFile",
        "values-lifecycle-hold.yaml",
        0,
        &["global.proxy.lifecycle: without postStart", "holdApplicationUntilProxyStarts is true"],
    ),
    row(INJECT, "vm-pod.yaml", 0, &["- k6t-eth0", "- 10.96.0.0/12", "- \"5432\""]),
    row(INJECT, "windows-selector.yaml", 0, &["(windows)", "0 injected, 1 skipped"]),
];

/// Files that `uninject` restores, with the texts in which values that injection replaced are
/// written.
const INJECTED: &[(&str, &[(&str, &str)])] = &[
    ("host-network.yaml", &[]),
    ("job-onfailure-hold.yaml", &[]),
    ("knative-service.yaml", &[]),
    ("misplaced-annotations.yaml", &[]),
    ("outdented-257-crd.yaml", &[]),
    ("outdented-257-pod.yaml", &[]),
    ("outdented-400-configmap.yaml", &[]),
    ("plain.yaml", &[]),
    (
        "probe-host.yaml",
        &[("{host: \"\", path: /r, port: 8081}", "{host: \"\", path: \"/r\", port: 8081}")],
    ),
    (
        "prometheus-https.yaml",
        &[(
            "prometheus.io/path: /metrics, prometheus.io/scheme: https",
            "prometheus.io/path: \"/metrics\", prometheus.io/scheme: \"https\"",
        )],
    ),
    ("sctp-port.yaml", &[]),
    ("two-meshes.yaml", &[]),
    ("vm-pod.yaml", &[]),
    ("windows-selector.yaml", &[]),
];
