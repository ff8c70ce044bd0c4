//! `istioctl kube-inject` as a user runs it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use documents::yaml;
use injector::inject::cluster_state::ClusterFacts;
use injector::inject::policy::Rules;
use injector::inject::{InjectionOutcome, Target, inject};
use injector::manifest::{Document, Manifest};
use injector::settings::{Documents, Process, Settings};
use serde_json::Value;

#[test]
fn every_layout_gets_the_library_result() {
    for file in manifests() {
        let (text, injected) = (read(&file), injected(&file));
        let (before, after) = (Document::split(&text), Document::split(&injected));
        assert_eq!(before.len(), after.len(), "{}", file.display());
        for (before, after) in before.iter().zip(&after) {
            let manifest = Manifest::read(before).unwrap();
            if manifest.pods().is_empty() {
                assert_eq!(before.text, after.text, "{}", file.display());
                continue;
            }
            let mut expected = yaml::parse(before.text).unwrap();
            for template in manifest.pods() {
                let target = Target {
                    pod: manifest.pod(template).clone(),
                    namespace: &template.workload.namespace,
                    cluster: ClusterFacts::default(),
                    workload: (!template.is_pod()).then(|| template.workload.clone()),
                    path_env: &[],
                    rules: Rules::Manual,
                };
                match inject(&settings(), target).unwrap() {
                    InjectionOutcome::Injected(injection) => {
                        *at(&mut expected, &template.place) = injection.pod;
                    }
                    InjectionOutcome::Skipped { reason, .. } => {
                        panic!("{}: {reason}", file.display())
                    }
                }
            }
            assert_eq!(yaml::parse(after.text).unwrap(), expected, "{}", file.display());
        }
    }
}

#[test]
fn injection_only_adds_to_the_users_text() {
    for name in
        ["comments", "cronjob", "duplicate-looking-keys", "four-spaces", "moved", "odd-indentation"]
    {
        let file = edits().join(name).with_extension("yaml");
        let (text, injected) = (read(&file), injected(&file));
        let mut lines = injected.lines();
        for line in text.lines().filter(|line| !line.contains('{')) {
            assert!(lines.any(|injected| injected == line), "{name}: lost or moved: {line}");
        }
    }
}

#[test]
fn injecting_twice_equals_injecting_once() {
    for file in manifests() {
        let once = injected(&file);
        let twice = run(&["kube-inject", "-f", "-"], &once);
        assert_eq!(twice.code, 0, "{}", file.display());
        assert_eq!(twice.output, once, "{}", file.display());
    }
}

#[test]
fn cron_job_metadata_goes_to_the_pod_not_the_job() {
    let value = yaml::parse(&injected(&edits().join("cronjob.yaml"))).unwrap();
    let labels = value.pointer("/spec/jobTemplate/metadata/labels").unwrap();
    assert_eq!(labels, &serde_json::json!({"of": "the job"}));
    let pod = value.pointer("/spec/jobTemplate/spec/template/metadata").unwrap();
    assert!(pod.pointer("/annotations/sidecar.istio.io~1status").is_some());
    assert_eq!(pod.pointer("/labels/service.istio.io~1canonical-name").unwrap(), "cron");
}

#[test]
fn lost_container_comments_get_a_warning() {
    let text = "\
kind: Service
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web # stays
  # Stays too.
  - name: istio-proxy # moves
    image: auto
    args: [\"#none\"]
    # moves too
    env: []
";
    let ran = run(&["kube-inject", "-f", "-"], text);
    let shown = "warning: standard input: document 2: Pod \"web\": the comments of line 10, 13 are \
                 lost, because the field";
    assert!(ran.messages.starts_with(shown), "{}", ran.messages);
    for (comment, kept) in [("# stays", true), ("# Stays too.", true), ("# moves", false)] {
        assert_eq!(ran.output.contains(comment), kept, "{comment}: {}", ran.output);
    }
    let empty = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: { # none\n  }}\nspec:\n  \
                 volumes: [] # stays\n  containers: []\n";
    let ran = run(&["kube-inject", "-f", "-"], empty);
    assert!(ran.messages.contains("the comments of line 3 are lost"), "{}", ran.messages);
    let brackets = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: { # one\n    # two\n  \
                    } # three\nspec:\n  containers: []\n";
    let ran = run(&["kube-inject", "-f", "-"], brackets);
    let kept = "  labels: # one\n    # two\n    # three\n    security.istio.io/tlsMode: istio\n";
    assert!(ran.warnings().is_empty() && ran.output.contains(kept), "{}", ran.output);
    let classic = run(&["kube-inject", "-f", "-", "--enable-native-sidecars", "false"], text);
    assert!(classic.warnings().is_empty() && classic.output.contains("# moves too"));
}

#[test]
fn skipped_workload_gets_a_warning_and_is_unchanged() {
    let text = "\
# Two that want no sidecar.
apiVersion: apps/v1
kind: Deployment
metadata: {name: node, namespace: sample}
spec: {template: {spec: {hostNetwork: true, containers: []}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: out # of it
  labels: {sidecar.istio.io/inject: \"false\"}
spec: {containers: []}
";
    let ran = run(&["kube-inject", "-f", "-"], text);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.output, text);
    let lines: Vec<_> = ran.messages.lines().collect();
    let words =
        "===> Skipping injection because Deployment \"sample/node\" has host networking enabled";
    assert_eq!(lines[0], words);
    assert!(lines[1].starts_with("     ") && lines[1].contains("(host_network)"), "{}", lines[1]);
    assert_eq!(lines[2], "       hint: set spec.hostNetwork to false to inject the pod");
    assert_eq!(
        lines[3],
        "===> Skipping injection because Pod \"out\" has sidecar injection disabled"
    );
    assert_eq!(
        lines[5],
        "standard input: 0 injected, 2 skipped (1 host_network, 1 opted_out_by_label), 0 skipped because of their kind"
    );
    assert_eq!(lines.len(), 6);
}

#[test]
fn invalid_annotation_is_named_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("in.yaml"), directory.path().join("out.yaml"));
    let good = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: []}\n---\n";
    let bad = "\
# a comment
apiVersion: apps/v1
kind: Deployment
metadata: {name: bad, namespace: ns}
spec:
  template:
    metadata:
      annotations: {traffic.sidecar.istio.io/includeOutboundIPRanges: bad}
    spec: {containers: []}
";
    fs::write(&input, format!("{good}{bad}---\n{bad}")).unwrap();
    fs::write(&output, "as before").unwrap();
    let ran = run(&["kube-inject", "-f", path(&input), "-o", path(&output)], "");
    assert_eq!((ran.code, ran.output.as_str()), (1, ""));
    assert_eq!(read(&output), "as before");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    let errors: Vec<_> = ran.messages.lines().collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    for (error, place) in errors.iter().zip(["document 2: line 13", "document 3: line 23"]) {
        let start = format!("error: {}: {place}: Deployment \"ns/bad\": ", input.display());
        assert!(error.starts_with(&start), "{error}");
        assert!(error.contains("includeOutboundIPRanges") && error.contains("\"bad\""), "{error}");
    }
    let ran = run(&["kube-inject", "-f", path(&input)], "");
    assert_eq!((ran.code, ran.output.as_str()), (1, ""));
}

#[test]
fn invalid_yaml_is_named_with_its_position() {
    let message = |text: &str| {
        let ran = run(&["kube-inject", "-f", "-"], text);
        assert_eq!((ran.code, ran.output.as_str()), (1, ""));
        ran.messages
    };
    insta::assert_snapshot!(
        message("kind: B\n---\n# c\na: [b\nc: d\n"),
        @"error: standard input: document 2: line 5, column 2: illegal placement of ':' indicator"
    );
    insta::assert_snapshot!(
        message("kind: B\n---\na:\n\tb: c\n"),
        @"error: standard input: document 2: line 4, column 2: tabs disallowed within this context (block indentation)"
    );
    insta::assert_snapshot!(
        message("apiVersion: v1\nkind: Pod\nmetadata: {}\nmetadata: {}\n"),
        @"error: standard input: document 1: line 4, column 1: duplicate mapping key: metadata"
    );
    insta::assert_snapshot!(
        message("kind: B\n---\n# c\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n"),
        @r#"error: standard input: document 2: line 4: Deployment "x": spec.template is not an object; a pod template is required"#
    );
}

#[test]
fn usage_errors_exit_with_2() {
    for args in [
        &["kube-inject"][..],
        &["kube-inject", "-f", "-", "--nonsense"],
        &["kube-inject", "-f", "-", "--meshConfigMapName", ""],
        &["kube-inject", "-f", "-", "--injectConfigMapName="],
        &["kube-inject", "-f", "-", "--xds-address", "istiod:15012"],
        &["kube-inject", "-f", "-", "--plaintext"],
        &["version", "--remote=maybe"],
        &["tag", "list", "--as-group", "readers"],
        &["nonsense"],
        &[],
    ] {
        let ran = run(args, "");
        assert_eq!((ran.code, ran.output.as_str()), (2, ""), "{args:?}");
        assert!(!ran.messages.is_empty(), "{args:?}");
    }
    insta::assert_snapshot!(run(&["kube-inject", "-f", "-", "--xds-address", "istiod:15012"], "").messages, @r#"
    error: --xds-address "istiod:15012": Istio's istioctl has this flag for the API of a control plane, and this program uses the Kubernetes API alone
      hint: leave the flag out; --kubeconfig and --context name a cluster
    "#);
    insta::assert_snapshot!(
        run(&["proxy-config", "all", "--file", "dump.json", "--context", "other"], "").messages,
        @r#"error: --context "other": this command uses no cluster"#
    );
}

#[test]
fn unreachable_cluster_is_named_with_its_flag() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    // No process listens on this port.
    let kubeconfig = "{current-context: here, contexts: [{name: here, context: {cluster: c}}], \
                      clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}";
    fs::write(&file, kubeconfig).unwrap();
    let unreachable = format!(
        "error: --kubeconfig {}, server http://127.0.0.1:1/: mutatingwebhookconfigurations: tcp connect error",
        path(&file)
    );
    for (args, expected) in [
        (&["-c", path(&file)][..], unreachable.as_str()),
        (&["-c", "/nowhere/config"], "error: --kubeconfig /nowhere/config: "),
        (
            &["--context", "other"],
            "error: --context other: no cluster: --kubeconfig and KUBECONFIG are not set, and /",
        ),
        (&["--meshConfigMapName=istio"], "error: no cluster: "),
        (&["--injectConfigMapName", "mine"], "error: no cluster: "),
        (&["--kubeconfig", path(&file), "--context", "x"], "error: --context `x`: no such context"),
    ] {
        let ran = run(&[&["kube-inject", "-f", "-"][..], args].concat(), POD);
        assert_eq!((ran.code, ran.output.as_str()), (1, ""), "{args:?}");
        assert!(ran.messages.starts_with(expected), "{expected}\n{}", ran.messages);
    }
}

#[test]
fn istio_flags_without_effect_are_accepted() {
    let args = [
        "--log_output_level=default:debug",
        "kube-inject",
        "--log_as_json",
        "--log_target=stderr",
        "-i",
        "istio-system",
        "--webhookConfig=mine",
        "--timeout=30s",
        "--plaintext=false",
        "-f",
        "-",
    ];
    let ran = run(&args, "kind: Service\n");
    assert_eq!((ran.code, ran.output.as_str(), ran.warnings()), (0, "kind: Service\n", ""));
}

#[test]
fn cluster_of_the_environment_is_unused_with_a_note() {
    let environment = [("KUBECONFIG", "/nowhere")];
    let ran = run_with(&["kube-inject", "-f", "-"], POD, &environment);
    assert_eq!(ran.output, run(&["kube-inject", "-f", "-"], POD).output);
    insta::assert_snapshot!(ran.messages, @r"
    using config: built in; values: built in; mesh: built in
      hint: KUBECONFIG is set, but the configuration of its cluster is used only with --context or --kubeconfig
    standard input: 1 injected, 0 skipped, 0 skipped because of their kind
    ");
}

#[test]
fn built_in_images_equal_the_installation() {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/base");
    let file = |name: &str| manifests.join(name).to_str().unwrap().to_owned();
    let installed = [
        ("--injectConfigFile", file("inject_config.yaml")),
        ("--valuesFile", file("values.yaml")),
        ("--meshConfigFile", file("mesh.yaml")),
    ];
    let installed = installed.iter().flat_map(|(flag, file)| [*flag, file]);
    let args: Vec<_> = ["kube-inject", "-f", "-"].into_iter().chain(installed).collect();
    let (by_files, built_in) = (run(&args, POD), run(&args[..3], POD));
    assert_eq!((by_files.code, by_files.output), (0, built_in.output.clone()));
    for image in ["docker.io/istio/proxyv2:1.28.0", "localhost/outrigger/istio-init:0.1.0"] {
        assert!(built_in.output.contains(&format!("image: {image}\n")), "{image}");
    }
}

#[test]
fn old_api_groups_and_openshift_kinds_are_injected() {
    let template = "spec: {containers: [{name: app, image: app}]}";
    for (api_version, kind) in [
        ("v1", "DeploymentConfig"),
        ("apps.openshift.io/v1", "DeploymentConfig"),
        ("extensions/v1beta1", "Deployment"),
        ("extensions/v1beta1", "DaemonSet"),
        ("extensions/v1beta1", "ReplicaSet"),
        ("batch/v1beta1", "CronJob"),
    ] {
        let spec = match kind {
            "CronJob" => format!("{{jobTemplate: {{spec: {{template: {{{template}}}}}}}}}"),
            _ => format!("{{template: {{{template}}}}}"),
        };
        let text = format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: web}}\nspec: {spec}\n"
        );
        let ran = run(&["kube-inject", "-f", "-"], &text);
        assert_eq!((ran.code, ran.warnings()), (0, ""), "{api_version} {kind}");
        assert!(ran.output.contains("istio-proxy"), "{api_version} {kind}: {}", ran.output);
    }
}

#[test]
fn uninjected_objects_are_counted_with_warnings() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shop.yaml");
    fs::write(&file, SHOP).unwrap();
    let output = directory.path().join("out.yaml");
    let shown = [
        &["kube-inject", "-f", path(&file)][..],
        &["kube-inject", "-f", path(&file), "--strict", "-o", path(&output)],
    ]
    .map(|args| session(args, ""))
    .concat();
    assert!(!output.exists());
    insta::assert_snapshot!("not_injected", shown.replace(path(directory.path()), "FOLDER"));
    let strict = run(&["kube-inject", "-f", "-", "--strict"], POD);
    assert_eq!((strict.code, strict.warnings()), (0, ""));
}

#[test]
fn skipped_pod_is_an_error_only_if_no_setting_asks_for_it() {
    let pod = |annotations: &str, spec: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, annotations: {{{annotations}}}}}\n\
             spec: {{containers: [{{name: a, image: a}}], {spec}}}\n"
        )
    };
    let opt_out = "sidecar.istio.io/inject: 'false'";
    for (text, word) in [
        (pod("", "hostNetwork: true"), Some("host_network")),
        (pod("", "nodeSelector: {kubernetes.io/os: windows}"), Some("windows")),
        (pod(opt_out, ""), None),
        (pod(opt_out, "hostNetwork: true"), None),
        (pod("", ""), None),
    ] {
        let lenient = run(&["kube-inject", "-f", "-"], &text);
        assert_eq!(lenient.code, 0, "{}", lenient.messages);
        let strict = run(&["kube-inject", "-f", "-", "--strict"], &text);
        assert_eq!(strict.code, i32::from(word.is_some()), "{text}: {}", strict.messages);
        assert_eq!(strict.output.is_empty(), word.is_some(), "{text}");
        let error = word.map(|word| format!("({word})"));
        assert!(error.is_none_or(|error| strict.messages.contains(&error)), "{}", strict.messages);
    }
}

#[test]
fn keys_of_injection_on_a_workload_get_a_warning() {
    let metadata = "{name: a, labels: {sidecar.istio.io/inject: 'false'}, annotations: \
                    {traffic.sidecar.istio.io/excludeOutboundPorts: '5432'}}";
    let template = "template: {spec: {containers: [{name: a, image: a}]}}";
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {metadata}\nspec: {{{template}}}\n"
    );
    let rollout = deployment.replace("apps/v1", "argoproj.io/v1alpha1");
    let rollout = rollout.replace("Deployment", "Rollout");
    let cron_job = format!(
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {metadata}\nspec: {{jobTemplate: {{spec: \
         {{{template}}}}}}}\n"
    );
    let item = deployment.replace('\n', "\n  ");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}\n", item.trim_end());
    for (text, path) in [
        (deployment, "spec.template"),
        (rollout, "spec.template"),
        (cron_job, "spec.jobTemplate.spec.template"),
        (list, "spec.template"),
    ] {
        let ran = run(&["kube-inject", "-f", "-", "--strict"], &text);
        assert_eq!(ran.code, 0, "{text}{}", ran.messages);
        let opt_out = format!("(misplaced_opt_out)\n  hint: move it to {path}.metadata.labels\n");
        let other =
            format!("(misplaced_in_workload)\n  hint: move it to {path}.metadata.annotations\n");
        let [opt_out, other] = [opt_out, other].map(|line| ran.messages.find(&line));
        assert!(opt_out.is_some() && opt_out < other, "{text}{}", ran.messages);
    }
}

#[test]
fn list_without_a_list_of_items_gets_a_warning() {
    for (items, warns) in [("{a: b}", true), ("text", true), ("null", false), ("[]", false)] {
        let text = format!("apiVersion: v1\nkind: List\nitems: {items}\n");
        let ran = run(&["kube-inject", "-f", "-"], &text);
        let warned =
            ran.messages.contains("List: its items are not a list (no_list)\n  hint: start");
        assert_eq!((ran.code, warned, ran.output), (0, warns, text), "{}", ran.messages);
    }
}

#[test]
fn every_error_is_named_with_its_line() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n    \
               a: b\n    sidecar.istio.io/proxyCPU: much\n    \
               proxy.istio.io/config: '{concurrency: x}'\nspec: {containers: []}\n";
    let unknown = pod.replace("sidecar.istio.io/proxyCPU: much", "inject.istio.io/templates: mine");
    let unknown = unknown.replace("concurrency: x", "concurrency: 1");
    let item = |pod: &str| format!("- {}\n", pod.trim_end().replace('\n', "\n  "));
    let list = format!("apiVersion: v1\nitems:\n{}{}kind: List\n", item(POD), item(&unknown));
    let form = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels:\n    a: b\n    \
                port: 80\nspec: {}\n";
    let shown = [
        format!("{POD}---\n# one\n\n{pod}"),
        list,
        form.to_owned(),
        pod.replace("a: b\n", "a: b\n    a: c\n"),
    ]
    .map(|text| session(&["kube-inject", "-f", "-"], &text))
    .concat();
    insta::assert_snapshot!("lines_of_faults", shown);
}

#[test]
fn suggestions_name_no_hidden_flags() {
    let shown = [
        &["kube-inject", "-f", "-", "--log-as-json"][..],
        &["kube-inject", "-f", "-", "--xds-adress", "x"],
        &["kube-inject", "-f", "-", "--webhookConfg", "x"],
        &["kube-inject", "-f", "-", "--valuesfile", "x"],
    ]
    .map(|args| session(args, ""))
    .concat();
    insta::assert_snapshot!("tips", shown);
}

#[test]
fn unwritable_output_is_named() {
    let ran = run(&["kube-inject", "-f", "-", "-o", "/nowhere/out.yaml"], POD);
    let expected = "error: --output /nowhere/out.yaml: No such file or directory\n";
    assert_eq!((ran.code, ran.messages.as_str()), (1, expected));
}

#[test]
fn output_may_overwrite_the_input() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pod.yaml");
    fs::write(&file, POD).unwrap();
    let ran = run(&["kube-inject", "-f", path(&file), "--output", path(&file)], "");
    assert_eq!((ran.code, ran.output.as_str(), ran.warnings()), (0, "", ""));
    assert_eq!(read(&file), run(&["kube-inject", "-f", "-", "-o", "-"], POD).output);
}

#[test]
fn flags_and_environment_are_applied() {
    let proxy = |ran: &Ran, list: &str| {
        let value = yaml::parse(&ran.output).unwrap();
        let names = value.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
        names.iter().any(|container| container["name"] == "istio-proxy")
    };
    let args = ["kube-inject", "-f", "-", "-n", "shop", "-r", "canary"];
    let native = run(&args, POD);
    assert!(proxy(&native, "/spec/initContainers") && !proxy(&native, "/spec/containers"));
    assert!(native.output.contains("istio.io/rev: canary"));
    assert!(native.output.contains("namespaces/shop/pods/pod"));
    for (key, value) in [("ENABLE_NATIVE_SIDECARS", "false"), ("ENABLE_NATIVE_SIDECARS", "False")] {
        let classic = run_with(&args, POD, &[(key, value)]);
        assert!(proxy(&classic, "/spec/containers") && !proxy(&classic, "/spec/initContainers"));
    }
    let wrong = run_with(&args, POD, &[("ENABLE_NATIVE_SIDECARS", "perhaps")]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.messages.contains("perhaps"), "{}", wrong.messages);
}

#[test]
fn invalid_configuration_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file.yaml");
    fs::write(&file, "a: [b\n").unwrap();
    for flag in ["--injectConfigFile", "--valuesFile", "--meshConfigFile"] {
        // A file that is not a configuration counts as a template, which has an error message of
        // its own.
        let template = flag == "--injectConfigFile";
        for name in [path(&file), "/nowhere"].into_iter().skip(usize::from(template)) {
            let ran = run(&["kube-inject", "-f", "-", flag, name], POD);
            assert_eq!((ran.code, ran.output.as_str()), (1, ""), "{flag}");
            assert!(ran.messages.contains(name), "{flag}: {}", ran.messages);
        }
    }
}

#[test]
fn closed_pipe_is_no_error() {
    let mut child = istioctl(&["kube-inject", "-f", "-"], &[]).spawn().unwrap();
    drop(child.stdout.take());
    let text = format!("{POD}---\n").repeat(200);
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn version_names_client_and_images() {
    let shown: String = [
        &["version"][..],
        &["version", "--short", "--remote=false"],
        &["version", "--short=false"],
        &["version", "-o", "json"],
        &["version", "--short=false", "-o", "yaml"],
        &["--version"],
    ]
    .map(|args| session(args, ""))
    .concat();
    insta::assert_snapshot!("version", shown);
    let help = run(&["kube-inject", "--help"], "");
    assert_eq!((help.code, help.messages.as_str()), (0, ""));
    assert!(help.output.contains("--valuesFile"));
}

struct Ran {
    code: i32,
    output: String,
    messages: String,
}

impl Ran {
    /// Returns the messages before the summary.
    fn warnings(&self) -> &str {
        let messages = self.messages.strip_suffix('\n').unwrap_or_default();
        let (shown, summary) = match messages.rfind('\n') {
            Some(at) => messages.split_at(at + 1),
            None => ("", messages),
        };
        assert!(summary.ends_with(" skipped because of their kind") || summary.ends_with(')'));
        shown
    }
}

/// Returns a command as a terminal shows it, without the injected text.
fn session(args: &[&str], input: &str) -> String {
    let ran = run(args, input);
    let shown = if args.contains(&"kube-inject") { "" } else { &ran.output };
    format!("$ istioctl {}\n{shown}{}exit {}\n\n", args.join(" "), ran.messages, ran.code)
}

fn run(args: &[&str], input: &str) -> Ran {
    run_with(args, input, &[])
}

fn run_with(args: &[&str], input: &str, environment: &[(&str, &str)]) -> Ran {
    let mut child = istioctl(args, environment).spawn().unwrap();
    // A command that fails before it reads has closed its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        output: String::from_utf8(output.stdout).unwrap(),
        messages: String::from_utf8(output.stderr).unwrap(),
    }
}

fn istioctl(args: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_istioctl"));
    command
        .args(args)
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn injected(file: &Path) -> String {
    let ran = run(&["kube-inject", "-f", path(file)], "");
    assert_eq!(ran.code, 0, "{}", file.display());
    // The messages are about documents that are not Kubernetes objects.
    let is_expected = |line: &str| line.contains("(no_kind)") || line.starts_with("  hint: ");
    assert!(ran.warnings().lines().all(is_expected), "{}", ran.messages);
    ran.output
}

fn settings() -> Settings {
    let process = Process { native_sidecars: true, ..Process::default() };
    Settings::parse(&Documents::default(), process).unwrap()
}

fn manifests() -> Vec<PathBuf> {
    let entries = fs::read_dir(edits()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn edits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../injector/testdata/kube-inject/edits")
}

fn at<'v>(value: &'v mut Value, place: &[String]) -> &'v mut Value {
    place.iter().fold(value, |value, token| match value {
        Value::Array(items) => &mut items[token.parse::<usize>().unwrap()],
        _ => &mut value[token],
    })
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

const SHOP: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: app, image: app}]}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: canary, namespace: shop}
spec: {template: {spec: {containers: [{name: app, image: app}]}}}
---
apiVersion: apps/v1
kind: deployment
metadata: {name: small}
spec: {template: {spec: {containers: []}}}
---
# A pod, hardly.
kind: Pod
metadata: {name: bare}
spec: {containers: []}
---
- apiVersion: v1
---
a: b
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1beta2
  kind: Deployment
  metadata: {name: old}
  spec: {template: {spec: {containers: []}}}
- apiVersion: v1
  kind: Service
- apiVersion: v1
  kind: Service
- apiVersion: v1
  kind: Pod
  metadata: {name: node}
  spec: {hostNetwork: true, containers: []}
";

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: pod # a pod
spec:
  containers:
    - name: pod
      image: pod:1
";
