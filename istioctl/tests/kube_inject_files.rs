//! `istioctl kube-inject` with several files and directories, and each form of its output.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

#[test]
fn files_and_directories_become_one_stream() {
    let folder = Folder::with(&[
        ("web.yaml", &pod("web")),
        ("more/b.yml", "kind: Service"),
        ("more/a.json", "{\"kind\": \"Service\"}"),
        ("more/notes.txt", "[not a manifest"),
        ("more/deep/c.yaml", &format!("---\n{}", pod("deep"))),
    ]);
    let shown =
        [&["-f", "web.yaml", "-f", "more", "-f", "web.yaml"][..], &["-R", "-f", "more", "-f", "-"]];
    insta::assert_snapshot!("stream", folder.sessions(&shown, "kind: ConfigMap\n"));
}

#[test]
fn file_without_its_flag_gets_a_hint() {
    let folder = Folder::with(&[("web.yaml", &pod("web"))]);
    insta::assert_snapshot!("without_flag", folder.sessions(&[&["web.yaml"], &["gone.yaml"]], ""));
}

#[test]
fn unreadable_inputs_are_all_named() {
    let folder = Folder::with(&[("empty/deep/web.yaml", ""), ("latin.yaml", "")]);
    fs::write(folder.path("latin.yaml"), b"name: caf\xe9\n").unwrap();
    fs::write(folder.path("cr.yaml"), "kind: Pod\rmetadata:\r").unwrap();
    let shown = [
        &["-f", "missing.yaml", "-f", "empty", "-f", "latin.yaml", "-f", "cr.yaml"][..],
        &["-f", "empty/deep", "-f", "missing", "-R"],
    ];
    insta::assert_snapshot!("unreadable", folder.sessions(&shown, ""));
}

#[test]
fn errors_of_all_files_are_named_and_nothing_is_written() {
    let bad = pod("bad").replace("web: a", "sidecar.istio.io/proxyCPU: much");
    let folder = Folder::with(&[
        ("a.yaml", &format!("# a\n---\n{bad}---\n{}", pod("good"))),
        ("b.yaml", "kind: Service\n---\na: [b\n"),
    ]);
    let shown = [&["-f", ".", "-o", "out.yaml"][..]];
    insta::assert_snapshot!("errors", folder.sessions(&shown, ""));
    assert!(!folder.path("out.yaml").exists());
}

#[test]
fn in_place_replaces_changed_files_alone() {
    let folder = Folder::with(&[
        ("web.yaml", &pod("web")),
        ("service.yaml", "kind: Service\r\n# c"),
        ("real/pod.yaml", &pod("linked")),
    ]);
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    let inode = |name: &str| fs::metadata(folder.path(name)).unwrap().ino();
    fs::set_permissions(folder.path("web.yaml"), Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("real/pod.yaml", folder.path("link.yaml")).unwrap();
    let untouched = inode("service.yaml");
    let expected = folder.run(&["-f", "web.yaml"], "").output;
    let shown = folder.sessions(&[&["-f", ".", "--in-place"][..], &["-f", ".", "--check"]], "");
    insta::assert_snapshot!("in_place", shown);
    assert_eq!(fs::read_to_string(folder.path("web.yaml")).unwrap(), expected);
    assert_eq!((mode("web.yaml"), inode("service.yaml")), (0o640, untouched));
    assert!(fs::symlink_metadata(folder.path("link.yaml")).unwrap().is_symlink());
    assert!(fs::read_to_string(folder.path("real/pod.yaml")).unwrap().contains("istio-proxy"));
    let written = inode("web.yaml");
    assert_eq!(folder.run(&["-f", "web.yaml", "--in-place"], "").code, 0);
    assert_eq!(inode("web.yaml"), written);
}

#[test]
fn in_place_writes_nothing_after_an_error() {
    let folder = Folder::with(&[("a.yaml", &pod("a")), ("b.yaml", "kind: Pod\na: [\n")]);
    let ran = folder.run(&["-f", ".", "--in-place"], "");
    assert_eq!(ran.code, 1, "{}", ran.messages);
    assert_eq!(fs::read_to_string(folder.path("a.yaml")).unwrap(), pod("a"));
}

#[test]
fn check_exits_with_3_if_something_would_change() {
    let two = format!("{}---\nkind: Service\n---\n{}", pod("web"), pod("api"));
    let folder = Folder::with(&[("a.yaml", &two), ("b.yaml", "kind: Service\n")]);
    let shown = [
        &["-f", ".", "--check"][..],
        &["-f", "b.yaml", "--check"],
        &["-f", "-", "--check"],
        &["-f", "-", "--in-place"],
        &["-f", ".", "--check", "--in-place"],
        &["-f", ".", "--check", "-o", "x.yaml"],
    ];
    insta::assert_snapshot!("check", folder.sessions(&shown, &pod("web")));
    assert_eq!(fs::read_to_string(folder.path("a.yaml")).unwrap(), two);
}

#[test]
fn pod_templates_of_other_kinds_are_injected() {
    let template = "{spec: {containers: []}}";
    let text = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {{name: a}}\n\
         spec:\n  template: {template}\n---\n\
         apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {{name: by-reference}}\n\
         spec: {{workloadRef: {{kind: Deployment}}}}\n---\n\
         apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {{name: b}}\n\
         spec:\n  template: {template}\n---\n\
         apiVersion: v1\nkind: Service\nspec: {{template: {{spec: {{}}}}}}\n---\n\
         apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: c}}\n\
         spec:\n  replicatedJobs:\n\
         \x20 - template: {{spec: {{template: {template}}}}}\n\
         \x20 - template: {{spec: {{template: {template}}}}}\n---\n\
         apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: d}}\n\
         spec:\n  parts: [{{pod: {template}}}]\n"
    );
    let folder = Folder::with(&[("all.yaml", &text)]);
    let shown = [
        &["-f", "all.yaml", "--check"][..],
        &["-f", "all.yaml", "--check", "--pod-template", "Widget.example.com=.spec.parts[*].pod"],
        &["-f", "all.yaml", "--check", "--pod-template", "Widget=.spec.part"],
        // Around and inside templates that are known.
        &[
            "-f",
            "all.yaml",
            "--check",
            "--pod-template",
            "Rollout=.spec",
            "--pod-template",
            "JobSet=.spec.replicatedJobs[*].template.spec.template.spec",
        ],
        &["-f", "all.yaml", "--pod-template", "widget=.spec"],
        &["-f", "all.yaml", "--pod-template", "Widget"],
    ];
    insta::assert_snapshot!("pod_template", folder.sessions(&shown, ""));
    let ran = folder.run(&["-f", "all.yaml"], "");
    assert_eq!(ran.output.matches("sidecar.istio.io/status").count(), 3, "{}", ran.output);
}

#[test]
fn knative_objects_are_left_with_a_reason() {
    let object = |kind: &str, template: &str| {
        format!("apiVersion: serving.knative.dev/v1\nkind: {kind}\nspec: {template}\n")
    };
    let template = "{template: {spec: {containers: [{image: a}]}}}";
    let list = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: serving.knative.dev/v1\n  \
                kind: Service\n  spec: {template: {spec: {containers: [{image: a}]}}}\n";
    let rule = "Service.serving.knative.dev=.spec.template";
    for text in [
        object("Service", template),
        object("Configuration", template),
        object("Revision", "{containers: [{image: a}]}"),
        list.to_owned(),
    ] {
        let folder = Folder::with(&[("knative.yaml", &text)]);
        let ran = folder.run(&["-f", "knative.yaml"], "");
        assert_eq!((ran.code, &ran.output), (0, &text));
        let hint = "(knative)\n  hint: let the webhook inject its pods";
        assert!(ran.messages.contains(hint), "{text}{}", ran.messages);
        let strict = folder.run(&["-f", "knative.yaml", "--strict"], "");
        assert_eq!((strict.code, &*strict.output), (1, ""));
        let by_rule = folder.run(&["-f", "knative.yaml", "--pod-template", rule], "");
        let is_service = text.contains("kind: Service");
        assert_eq!(by_rule.output.contains("istio-proxy"), is_service, "{}", by_rule.output);
    }
    let route = object("Route", "{traffic: []}");
    let ran = Folder::with(&[("route.yaml", &route)]).run(&["-f", "route.yaml", "--strict"], "");
    assert_eq!((ran.code, &ran.output), (0, &route));
}

#[test]
fn quoted_strings_may_continue_in_any_column_any_number_of_times() {
    let entries = |indent: &str, count: usize| {
        let entries = (0..count).map(|n| format!("{indent}k{n}: 'first\n{indent}second'\n"));
        entries.collect::<Vec<_>>().concat()
    };
    let annotated = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n{}spec:\n  \
         containers:\n  - name: app\n    image: a\n",
        entries("    ", 257)
    );
    let ran = Folder::with(&[("pod.yaml", &annotated)]).run(&["-f", "pod.yaml"], "");
    assert_eq!(ran.code, 0, "{}", ran.messages);
    let mut lines = ran.output.lines();
    assert!(annotated.lines().all(|line| lines.any(|new| new == line)), "{}", ran.output);
    assert!(ran.output.contains("istio-proxy"));
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n";
    for (beside, warns) in [
        (format!("{crd}{}", entries("  ", 400)), false),
        // Only a document with pods is read strictly.
        (format!("{crd}{}  k0: again\n", entries("  ", 400)), false),
        (format!("{crd}  a: [\n"), true),
    ] {
        let text = format!("{beside}---\n{}", pod("web"));
        let folder = Folder::with(&[("all.yaml", &text)]);
        let ran = folder.run(&["-f", "all.yaml"], "");
        assert_eq!(ran.code, 0, "{}", ran.messages);
        assert!(ran.output.starts_with(&beside) && ran.output.contains("istio-proxy"));
        assert_eq!(ran.messages.contains("(not_read)"), warns, "{}", ran.messages);
        let strict = folder.run(&["-f", "all.yaml", "--strict"], "");
        assert_eq!(strict.code, i32::from(warns), "{}", strict.messages);
    }
}

#[test]
fn forms_of_standard_output() {
    let service =
        "{\"kind\": \"Service\", \"port\": 080}\n---\n# nothing\n---\n{\"kind\": \"A\"}\n";
    let folder = Folder::with(&[
        ("web.yaml", &format!("kind: Service # c\n---\n{}", pod("web"))),
        ("pod.json", POD_JSON),
        ("service.yaml", service),
    ]);
    let all = ["-f", "web.yaml", "-f", "pod.json", "-f", "service.yaml", "-o"];
    let shown = ["diff", "patch", "json", "yaml"].map(|form| [&all[..], &[form]].concat());
    let shown: Vec<_> = shown.iter().map(Vec::as_slice).collect();
    insta::assert_snapshot!("forms", folder.sessions(&shown, ""));
    let broken = format!("{}---\n!x &a [*b]\n", pod("web"));
    let broken = [&["-f", "-", "-o", "json"][..], &["-f", "-", "-o", "yaml"]]
        .map(|args| folder.run(args, &broken));
    assert_eq!(broken.each_ref().map(|ran| ran.code), [1, 1], "{}", broken[0].messages);
}

#[test]
fn only_the_four_words_are_forms() {
    let folder = Folder::with(&[("web.yaml", &pod("web"))]);
    for name in ["./json", "./jsn", "jsn", "diff.yaml", "table"] {
        let ran = folder.run(&["-f", "web.yaml", "-o", name], "");
        assert_eq!((ran.code, ran.output.as_str()), (0, ""), "{}", ran.messages);
        let written = fs::read_to_string(folder.path(name)).unwrap();
        assert_eq!(written, folder.run(&["-f", "web.yaml", "-o", "-"], "").output);
    }
}

#[test]
fn misspelt_form_is_no_new_file() {
    let folder = Folder::with(&[("web.yaml", &pod("web"))]);
    for (name, form) in [("jsn", "json"), ("JSON", "json"), ("yml", "yaml"), ("dif", "diff")] {
        let ran = folder.run(&["-f", "web.yaml", "-o", name], "");
        assert_eq!(ran.code, 2, "{}", ran.messages);
        let hint = format!("did you mean {form}? For a new file, write ./{name}");
        assert!(ran.messages.contains(&hint), "{}", ran.messages);
        assert!(!folder.path(name).exists());
    }
}

#[test]
fn inputs_of_other_tools_are_named_with_the_command_to_render_them() {
    let template = "kind: Deployment\nmetadata:\n  {{- with .Values.labels }}\n  labels: {{ . }}\n";
    let kustomization = "resources: [web.yaml]\n";
    let kind = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n";
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n";
    let folder = Folder::with(&[
        ("base/kustomization.yaml", kustomization),
        ("base/web.yaml", &pod("web")),
        ("overlay/kustomization.yaml", &format!("{kind}{kustomization}")),
        ("flux/kustomization.yaml", flux),
        ("chart/Chart.yaml", "apiVersion: v2\nname: web\n"),
        ("chart/templates/web.yaml", template),
    ]);
    let shown = [
        &["-f", "https://example.com/web.yaml"][..],
        &["-f", "chart"],
        &["-f", "chart/templates"],
        &["-f", "overlay"],
        &["-f", "base", "--check"],
        &["-f", "flux", "--check"],
    ];
    insta::assert_snapshot!("unrendered", folder.sessions(&shown, ""));
}

#[test]
fn patches_lead_to_the_injected_objects() {
    let folder = Folder::with(&[("pod.json", POD_JSON)]);
    let ran = folder.run(&["-f", "pod.json", "-o", "patch"], "");
    let line: Value = serde_json::from_str(&ran.output).unwrap();
    let mut object: Value = serde_json::from_str(POD_JSON).unwrap();
    let patch: json_patch::Patch = serde_json::from_value(line["patch"].clone()).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    let injected = folder.run(&["-f", "pod.json"], "").output;
    assert_eq!(object, serde_json::from_str::<Value>(&injected).unwrap());
}

#[test]
fn explanation_names_every_object_with_its_reason() {
    let injected = Folder::with(&[]).run(&["-f", "-"], &pod("again")).output;
    let node = pod("node").replace("containers: []", "{hostNetwork: true, containers: []}");
    let node = node.replace("spec:\n  {", "spec: {");
    let web = pod("web").replace("web: a", "sidecar.istio.io/injcet: \"true\"");
    let bad = pod("bad").replace("web: a", "sidecar.istio.io/proxyCPU: much");
    let folder = Folder::with(&[
        ("a.yaml", &format!("{web}---\n{injected}---\n{node}---\nkind: Service\n---\n- x\n")),
        ("b.yaml", &format!("---\n# c\n{bad}")),
    ]);
    let shown = [
        &["-f", "a.yaml", "--explain"][..],
        &["-f", "a.yaml", "--explain", "-o", "json"],
        &["-f", ".", "--explain", "--strict"],
        &["-f", "a.yaml", "--explain", "-o", "yaml"],
        &["-f", "a.yaml", "--explain", "--in-place"],
    ];
    insta::assert_snapshot!("explanation", folder.sessions(&shown, ""));
}

#[test]
fn ten_thousand_lines_stay_byte_for_byte() {
    let text = odd_file(1_000);
    assert!(text.lines().count() > 10_000);
    for (eol, mark) in [("\n", ""), ("\r\n", ""), ("\n", "\u{feff}"), ("\r\n", "\u{feff}")] {
        let text = format!("{mark}{}", text.replace('\n', eol));
        let folder = Folder::with(&[("odd.yaml", &text)]);
        let ran = folder.run(&["-f", "odd.yaml"], "");
        assert_eq!(ran.code, 0, "{}", ran.messages);
        let mut old = text.split_inclusive('\n').peekable();
        let added: Vec<_> = ran
            .output
            .split_inclusive('\n')
            .filter(|line| old.next_if_eq(line).is_none())
            .collect();
        assert_eq!(old.next(), None, "{eol:?} {mark:?}: changed or moved");
        assert!(added.len() < 20 && added.concat().contains("istio-proxy"), "{added:?}");
        assert!(added.iter().all(|line| line.ends_with(eol)), "{added:?}");
    }
}

/// Returns a file of one workload between other objects, in styles that an author may choose.
fn odd_file(entries: usize) -> String {
    let mut text =
        "# \ttab, \u{e9}\n%YAML 1.1\n---   # the first\n\"kind\":   ConfigMap\t# c\ndata:\n"
            .to_owned();
    let mut env = String::new();
    for n in 0..entries {
        let _ = write!(
            text,
            "    'it''s {n}': &a{n} \"\\u00e9 # none\"  \t# one\n\n    ? key{n}\n    : *a{n}\n"
        );
        let _ = write!(
            env,
            "        # Number {n}   \n        - name:    \"V{n}\"\t# c\n          'value': 'it''s # none'\n\
             \n        - {{name: W{n}, value: *word,}}\n        - name: X{n}\n          value: |\n\
             \x20           \ttab {n}: [\n             - deeper\n"
        );
    }
    format!(
        "{text}...\n---\napiVersion: apps/v1 # version\n\"kind\": 'Deployment'\n\
         metadata: {{\"name\": web, 'labels': {{a: &word \"b\"}}}}\n\
         spec:\n  template:\n    spec:\n      containers:\n      - name: app   # the app\n        env:\n{env}\
         ---\n{{\n\t\"kind\": \"Service\",\n\t\"port\":\t080\n}}\n---\nkind: Service\nname: >+\n  last\n\n# end"
    )
}

/// A directory of input files, with a configuration beside it that injects little.
struct Folder(TempDir, TempDir);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let this = Self(tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(this.config(), CONFIG).unwrap();
        for (name, text) in files {
            let path = this.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.1.path().join("config.yaml")
    }

    /// Returns the commands as a terminal shows them.
    fn sessions(&self, commands: &[&[&str]], input: &str) -> String {
        commands.iter().map(|args| self.session(args, input)).collect()
    }

    fn session(&self, args: &[&str], input: &str) -> String {
        let ran = self.run(args, input);
        let args = args.join(" ");
        format!(
            "$ istioctl kube-inject {args}\n{}{}exit {}\n\n",
            ran.output, ran.messages, ran.code
        )
    }

    fn run(&self, args: &[&str], input: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_istioctl"))
            .args(["kube-inject", "--injectConfigFile"])
            .arg(self.config())
            .args(args)
            .current_dir(self.0.path())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that fails before it reads has closed its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            output: String::from_utf8(output.stdout).unwrap(),
            messages: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

struct Ran {
    code: i32,
    output: String,
    messages: String,
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name} # its name\n  annotations:\n    \
         web: a\nspec:\n  containers: []\n"
    )
}

const POD_JSON: &str = "{
  \"apiVersion\": \"apps/v1\",
  \"kind\": \"Deployment\",
  \"metadata\": {\"name\": \"api\", \"namespace\": \"shop\"},
  \"spec\": {
    \"template\": {
      \"spec\": {\"containers\": []}
    }
  }
}";

/// A template of a few lines.
const CONFIG: &str = "\
templates:
  sidecar: |
    spec:
      containers:
      - name: istio-proxy
        image: proxy
";
