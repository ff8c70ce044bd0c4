//! Configuration files of `istioctl kube-inject`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

use tempfile::TempDir;

#[test]
fn errors_name_flag_file_and_key() {
    for (flag, text, said) in [
        ("--valuesFile", "global: {proxy: {privileged: perhaps}}", "global.proxy.privileged: "),
        ("--valuesFile", "global: [\n", "line "),
        ("--meshConfigFile", "proxyListenPort: 0.5", "proxyListenPort: 0.5 is not a port"),
        ("--injectConfigFile", "templates: 1\n", "templates: "),
        (
            "--valuesFile",
            "# ours\nglobal:\n  proxy:\n    logLevel: info\n    statusPort: abc\n",
            "line 5: global.proxy.statusPort: \"abc\" is not a port from 0 to 65535\n",
        ),
        (
            "--valuesFile",
            "{\n  \"global\": {\n    \"proxy\": {\"privileged\": \"perhaps\"}\n  }\n}\n",
            "line 3: global.proxy.privileged: ",
        ),
        (
            "--meshConfigFile",
            "rootNamespace: a\ndefaultConfig:\n  concurrency: 1\n  tracing:\n    sampling: x\n",
            "line 5: defaultConfig.tracing.sampling: \"x\" is not a number",
        ),
        (
            "--injectConfigFile",
            "policy: enabled\ndefaultTemplates: sidecar\n",
            "line 2: defaultTemplates: ",
        ),
    ] {
        let files = Files::new(&[(flag, text)]);
        let ran = files.run("{}");
        let expected = format!("error: {flag} {}: {said}", files.path(flag));
        assert!(ran.messages.starts_with(&expected), "{expected}\n{}", ran.messages);
        assert_eq!((ran.code, ran.output.as_str()), (1, ""));
    }
}

#[test]
fn whole_object_is_rejected_with_a_hint() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio-sidecar-injector}\n\
               data: {values: '{}', config: 'policy: enabled', mesh: ''}\n";
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n\
                      spec: {template: {spec: {containers: []}}}\n";
    for (flag, key) in
        [("--injectConfigFile", "config"), ("--valuesFile", "values"), ("--meshConfigFile", "mesh")]
    {
        let refused = |text: &str, said: &str| {
            let files = Files::new(&[(flag, text)]);
            let ran = files.run(ONE_POD);
            let expected = format!("error: {flag} {}: {said}\n", files.path(flag));
            assert_eq!((ran.code, ran.output.as_str()), (1, ""));
            assert_eq!(ran.messages, expected);
        };
        refused(map, &format!("this is a ConfigMap: give its `.data.{key}`"));
        refused(
            deployment,
            &format!(
                "this is a Deployment, not the document `{key}`: give the `.data.{key}` of the \
                 injector's ConfigMap"
            ),
        );
    }
}

#[test]
fn istio_operator_document_replaces_unnamed_files() {
    let operator = "\
apiVersion: install.istio.io/v1alpha1
kind: IstioOperator
spec:
  values:
    global: {proxy: {image: registry.example/from-operator:1}}
  meshConfig:
    defaultConfig: {concurrency: 3}
";
    let alone = Files::new(&[("--operatorFileName", operator)]);
    assert_eq!(alone.proxy_config(ONE_POD), "{\"concurrency\":3}\n");
    assert!(alone.run(ONE_POD).output.contains("registry.example/from-operator:1"));

    let values = "global: {proxy: {image: registry.example/from-values:1}}";
    let beside = [("--operatorFileName", operator), ("--valuesFile", values)];
    let beside = Files::new(&beside);
    assert_eq!(beside.proxy_config(ONE_POD), "{\"concurrency\":3}\n");
    assert!(beside.run(ONE_POD).output.contains("registry.example/from-values:1"));

    for (from, to, said) in [
        ("IstioOperator", "Istio", "line 2: kind is \"Istio\", not IstioOperator"),
        ("concurrency: 3", "concurrency: [3", "line "),
        (
            "concurrency: 3",
            "concurrency: x",
            "line 6: spec.meshConfig: defaultConfig.concurrency: ",
        ),
        ("global: {proxy: ", "global: {pro: ", "line 4: spec.values: global.pro: unknown key"),
    ] {
        let files = Files::new(&[("--operatorFileName", &operator.replace(from, to))]);
        let ran = files.run(ONE_POD);
        let word = if said.ends_with("unknown key") { "warning" } else { "error" };
        let expected =
            format!("{word}: --operatorFileName {}: {said}", files.path("--operatorFileName"));
        assert!(ran.messages.starts_with(&expected), "{expected}\n{}", ran.messages);
        assert_eq!(ran.code, i32::from(word == "error"));
    }
}

#[test]
fn lifecycle_that_cancels_the_hold_gets_a_warning() {
    let values = |hold: bool, hook: &str| {
        format!(
            "global:\n  proxy:\n    holdApplicationUntilProxyStarts: {hold}\n    lifecycle: \
             {{{hook}: {{exec: {{command: [sleep, '45']}}}}}}\n"
        )
    };
    let classic = ONE_POD.replace(
        "metadata: {",
        "metadata: {annotations: {sidecar.istio.io/nativeSidecar: 'false'}, ",
    );
    assert_ne!(classic, ONE_POD);
    for (values, by_mesh, canceled) in [
        (values(true, "preStop"), false, true),
        (values(false, "preStop"), true, true),
        (values(true, "postStart"), false, false),
        (values(false, "preStop"), false, false),
    ] {
        let mesh = format!("defaultConfig: {{holdApplicationUntilProxyStarts: {by_mesh}}}\n");
        let files = Files::new(&[("--valuesFile", &values), ("--meshConfigFile", &mesh)]);
        for (pod, is_native) in [(ONE_POD, true), (&classic, false)] {
            let messages = files.run(pod).messages;
            let notice = "global.proxy.lifecycle: without postStart, the application";
            assert_eq!(messages.contains(notice), canceled, "{values}{messages}");
            let of_pod = messages.contains("(hold_canceled)");
            assert_eq!(of_pod, canceled && !is_native, "{values}{messages}");
        }
    }
}

#[test]
fn unknown_keys_get_one_warning_and_have_no_effect() {
    let files = Files::new(&[
        ("--injectConfigFile", "policy: enabled\nneverInjectSelectors: []\n"),
        ("--valuesFile", "global: {proxy: {logLevl: debug}}\nmine: 1\n"),
        ("--meshConfigFile", "defaultConfig: {concurency: 2}\n"),
    ]);
    let ran = files.run(TWO_PODS);
    let expected = [
        ("--injectConfigFile", "neverInjectSelectors", "; did you mean neverInjectSelector?"),
        ("--valuesFile", "global.proxy.logLevl", "; did you mean logLevel?"),
        ("--valuesFile", "mine", ""),
        ("--meshConfigFile", "defaultConfig.concurency", "; did you mean concurrency?"),
    ];
    let expected = expected.map(|(flag, key, near)| {
        format!("warning: {flag} {}: {key}: unknown key{near}\n", files.path(flag))
    });
    assert_eq!((ran.warnings(), ran.code), (expected.concat().as_str(), 0));
}

#[test]
fn only_templates_of_the_configuration_are_used() {
    let rest = "
policy: disabled
defaultTemplates: [custom]
aliases: {both: [sidecar, custom]}
neverInjectSelector: [{matchLabels: {app: one}}]
injectedAnnotations: {example.com/injected: x}
";
    let templates = "
templates:
  custom: '{metadata: {labels: {custom: x}}, spec: {}}'
";
    let whole = Files::new(&[("--injectConfigFile", &format!("{templates}{rest}"))]);
    let alone = Files::new(&[("--injectConfigFile", templates)]);
    let (ran, expected) = (whole.run(TWO_PODS), alone.run(TWO_PODS));
    assert_eq!((expected.code, expected.warnings()), (0, ""));
    assert_eq!(ran.output, expected.output);
    let keys =
        ["policy", "defaultTemplates", "aliases", "neverInjectSelector", "injectedAnnotations"];
    let path = whole.path("--injectConfigFile");
    let shown = keys.map(|key| {
        format!("warning: --injectConfigFile {path}: {key}: is used only by the webhook\n")
    });
    assert_eq!(ran.warnings(), shown.concat());

    let named = TWO_PODS
        .replace("{app: one}", "{app: one}\n  annotations: {inject.istio.io/templates: both}");
    let ran = whole.run(&named);
    assert!(ran.messages.contains("requested template \"both\" not found"), "{}", ran.messages);
}

#[test]
fn zero_in_an_annotation_is_applied_as_in_istio() {
    let mesh = "defaultConfig: {interceptionMode: TPROXY, statusPort: 0}\n";
    let files = Files::new(&[("--meshConfigFile", mesh)]);
    let pod = |annotations: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: one\n  annotations: {annotations}\n\
             spec: {{containers: [{{name: app, image: app}}]}}\n"
        )
    };
    assert_eq!(files.proxy_config(&pod("{}")), "{\"interceptionMode\":\"TPROXY\"}\n");
    let zero = "{proxy.istio.io/config: '{interceptionMode: REDIRECT}'}";
    assert_eq!(files.proxy_config(&pod(zero)), "{}\n");
}

#[test]
fn templates_see_an_empty_default_revision() {
    let template = "metadata: {labels: {seen: '{{ .Revision }}'}}";
    let config = format!("templates: {{sidecar: \"{template}\"}}\n");
    let mut files = Files::new(&[("--injectConfigFile", &config)]);
    let given = files.flags.clone();
    for (revision, seen) in [("default", ""), ("canary", "canary")] {
        files.flags = [&given[..], &["--revision".to_owned(), revision.to_owned()]].concat();
        let ran = files.run(ONE_POD);
        assert_eq!((ran.code, ran.warnings()), (0, ""));
        let pod = documents::yaml::parse(&ran.output).unwrap();
        assert_eq!(pod["metadata"]["labels"]["seen"], seen);
        let status = pod["metadata"]["annotations"]["sidecar.istio.io/status"].as_str().unwrap();
        assert!(status.contains(&format!(r#""revision":"{revision}""#)), "{status}");
    }
}

const ONE_POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\n\
                       spec: {containers: [{name: app, image: app}]}\n";

/// Files with the flags that name them.
struct Files {
    directory: TempDir,
    flags: Vec<String>,
}

struct Ran {
    code: i32,
    output: String,
    messages: String,
}

impl Ran {
    /// Returns the messages before the summary.
    fn warnings(&self) -> &str {
        let end = self.messages.trim_end().rfind('\n').map_or(0, |at| at + 1);
        &self.messages[..end]
    }
}

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = TempDir::new().unwrap();
        let mut this = Self { directory, flags: Vec::new() };
        for (flag, text) in files {
            let path = this.path(flag);
            fs::write(&path, text).unwrap();
            this.flags.extend([(*flag).to_owned(), path]);
        }
        this
    }

    fn path(&self, flag: &str) -> String {
        let name = flag.trim_start_matches('-');
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn run(&self, manifest: &str) -> Ran {
        let input = self.directory.path().join("manifest.yaml");
        fs::write(&input, manifest).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_istioctl"))
            .args(["kube-inject", "-f"])
            .arg(input)
            .args(&self.flags)
            .env_clear()
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran {
            code: output.status.code().unwrap(),
            output: text(output.stdout),
            messages: text(output.stderr),
        }
    }

    /// Returns the `PROXY_CONFIG` of a pod's proxy.
    fn proxy_config(&self, pod: &str) -> String {
        let ran = self.run(pod);
        assert_eq!((ran.code, ran.warnings()), (0, ""));
        let pod = documents::yaml::parse(&ran.output).unwrap();
        let proxy = &pod["spec"]["initContainers"][1];
        let env = proxy["env"].as_array().unwrap_or_else(|| panic!("{}", ran.output));
        let config = env.iter().find(|variable| variable["name"] == "PROXY_CONFIG");
        config.and_then(|config| config["value"].as_str()).unwrap_or_default().to_owned()
    }
}

const TWO_PODS: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: one
  labels: {app: one}
spec: {containers: [{name: app, image: app}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two}
spec: {containers: [{name: app, image: app}]}
";
