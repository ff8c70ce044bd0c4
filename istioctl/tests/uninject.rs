//! Terminal sessions of `istioctl uninject`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

#[test]
fn injected_file_comes_back_and_doubts_are_named() {
    let folder = Folder::new();
    let own = WEB.replace("port: 80\n", "port: http\n");
    fs::write(folder.path("web.yaml"), &own).unwrap();
    folder.inject("web.yaml", "injected.yaml");
    let shown = folder.sessions(&[&["-f", "injected.yaml"][..]], "");
    insta::assert_snapshot!("doubt", shown);
}

#[test]
fn comments_order_and_line_breaks_come_back_byte_for_byte() {
    let folder = Folder::new();
    let (before, rest) = WEB.split_once("          readinessProbe:").unwrap();
    let plain = format!("{before}{}", rest.split_once("port: 80\n").unwrap().1);
    let unended = plain.trim_end().to_owned();
    let others = [plain.replace('\n', "\r\n"), format!("\u{feff}{plain}"), unended];
    // As Go's parser, a quoted string continues in any column.
    let odd = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:   # none yet\n\
               spec:\n  containers:\n  - name: c\n    image: i\n    command:\n    - 'echo x\n\
               sleep 1\n' # end\n";
    for text in [plain, odd.to_owned()].into_iter().chain(others) {
        fs::write(folder.path("web.yaml"), &text).unwrap();
        folder.inject("web.yaml", "injected.yaml");
        assert_ne!(fs::read_to_string(folder.path("injected.yaml")).unwrap(), text);
        let ran = folder.run(&["uninject", "-f", "injected.yaml", "--in-place"], "");
        assert!(ran.status.success());
        assert_eq!(fs::read_to_string(folder.path("injected.yaml")).unwrap(), text);
    }
}

#[test]
fn injected_object_of_knative_comes_back() {
    let folder = Folder::new();
    let nameless = "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a}\nspec:\n  \
                    template:\n    spec:\n      containers:\n      - image: a\n";
    fs::write(folder.path("web.yaml"), nameless).unwrap();
    let rule = ["--pod-template", "Service.serving.knative.dev=.spec.template"];
    let inject = ["kube-inject", "-f", "web.yaml", "-o", "injected.yaml"];
    assert!(folder.run(&[&inject[..], &rule].concat(), "").status.success());
    assert!(folder.run(&["uninject", "-f", "injected.yaml", "--in-place"], "").status.success());
    assert_eq!(fs::read_to_string(folder.path("injected.yaml")).unwrap(), nameless);
}

#[test]
fn check_exits_with_3_if_a_workload_is_injected() {
    let folder = Folder::new();
    fs::write(folder.path("web.yaml"), WEB).unwrap();
    folder.inject("web.yaml", "injected.yaml");
    let injected = fs::read_to_string(folder.path("injected.yaml")).unwrap();
    let shown = [
        &["-f", ".", "--check"][..],
        &["-f", "web.yaml", "--check"],
        &["-f", "-", "--check"],
        &["-f", "-", "--in-place"],
    ];
    insta::assert_snapshot!("check", folder.sessions(&shown, &injected));
    assert_eq!(fs::read_to_string(folder.path("injected.yaml")).unwrap(), injected);
}

#[test]
fn file_with_an_invalid_status_is_not_written() {
    let folder = Folder::new();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: shop\n  \
               annotations: {sidecar.istio.io/status: injected}\nspec: {containers: []}\n";
    let text = format!("# nothing\n---\n{pod}---\nkind: Pod\na: [\n");
    fs::write(folder.path("web.yaml"), text).unwrap();
    insta::assert_snapshot!(
        "errors",
        folder.sessions(
            &[&["-f", "web.yaml", "-o", "out.yaml"][..], &["-f", "web.yaml", "--explain"]],
            ""
        )
    );
    assert!(!folder.path("out.yaml").exists());
}

#[test]
fn sidecar_that_the_annotations_do_not_name_is_an_error() {
    let folder = Folder::new();
    fs::write(folder.path("web.yaml"), WEB).unwrap();
    folder.inject("web.yaml", "injected.yaml");
    let injected = fs::read_to_string(folder.path("injected.yaml")).unwrap();
    let status = injected.lines().find(|line| line.contains("sidecar.istio.io/status")).unwrap();
    let (key, _) = status.split_once(": ").unwrap();
    let indent = &key[..key.len() - key.trim_start().len()];
    for (name, lines) in [
        ("empty.yaml", format!("{key}: '{{}}'")),
        ("other.yaml", format!("{key}: '{{\"containers\":[\"web\"]}}'")),
        ("cut.yaml", format!("{status}\n{indent}proxy.istio.io/overrides: '{{\"containers\":[{{'")),
    ] {
        fs::write(folder.path(name), injected.replace(status, &lines)).unwrap();
        let ran = folder.run(&["uninject", "-f", name], "");
        assert_eq!(ran.status.code(), Some(1), "{name}");
        let message = String::from_utf8(ran.stderr).unwrap();
        let annotation =
            if name == "cut.yaml" { "proxy.istio.io/overrides" } else { "sidecar.istio.io/status" };
        assert!(message.contains(&format!("annotation {annotation} ")), "{message}");
        assert!(message.contains("hint: restore the annotation"), "{message}");
    }
}

#[test]
fn injected_template_of_an_unknown_kind_is_named() {
    let folder = Folder::new();
    let text = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec:\n  pod:\n    \
                metadata: {annotations: {sidecar.istio.io/status: '{\"containers\":[\"istio-proxy\"]}'}}\n    \
                spec: {containers: [{name: web}, {name: istio-proxy}]}\n";
    fs::write(folder.path("widget.yaml"), text).unwrap();
    let shown = [
        &["-f", "widget.yaml"][..],
        &["-f", "widget.yaml", "--strict"],
        &["-f", "widget.yaml", "--explain"],
        &["-f", "widget.yaml", "--pod-template", "Widget.example.com=.spec.pod"],
        &["-f", "widget.yaml", "--pod-template", "Widget.example.com=.spec.pod", "--explain"],
    ];
    insta::assert_snapshot!("unknown_kind", folder.sessions(&shown, ""));
}

/// A directory of input files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn inject(&self, from: &str, to: &str) {
        let ran = self.run(&["kube-inject", "-f", from, "-o", to], "");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    /// Returns the commands as a terminal shows them.
    fn sessions(&self, commands: &[&[&str]], input: &str) -> String {
        let mut shown = String::new();
        for args in commands {
            let ran = self.run(&[&["uninject"][..], args].concat(), input);
            let (output, messages) = (String::from_utf8(ran.stdout), String::from_utf8(ran.stderr));
            let (output, messages, code) = (output.unwrap(), messages.unwrap(), ran.status.code());
            let args = args.join(" ");
            write!(shown, "$ istioctl uninject {args}\n{output}{messages}").unwrap();
            writeln!(shown, "exit {}\n", code.unwrap()).unwrap();
        }
        shown
    }

    fn run(&self, args: &[&str], input: &str) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_istioctl"))
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
        child.wait_with_output().unwrap()
    }
}

const WEB: &str = "\
# The shop's front end
apiVersion: v1
kind: Service
metadata: {name: web}
---
kind: Deployment
apiVersion: apps/v1
metadata:
    name: 'web'   # its name
spec:
    selector: {matchLabels: {app: web}}
    template:
      metadata:
          labels:
            app: \"web\"
            # deployed by hand
      spec:
        containers:
          # the application
        - name: web
          image: example.com/web:1
          ports:
          - {name: http, containerPort: 80}
          readinessProbe:
            httpGet:
              path: /ready
              port: 80
        terminationGracePeriodSeconds: 5
";
