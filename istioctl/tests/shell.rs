//! The shell of the program: its names, completion, output formats and colours, as processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use reference_pages::schema::validate;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn program_has_three_names() {
    let folder = Folder::new();
    let mut shown = String::new();
    for name in ["istioctl", "outrigger", "kubectl-outrigger"] {
        for args in [
            &["tag", "--help"][..],
            &["tag", "set"],
            &["kube-injekt"],
            &["check-inject"],
            &["analyze", "--verbose"],
            &["--version"],
        ] {
            let ran = folder.run(name, args);
            writeln!(shown, "$ {name} {}\n{}", args.join(" "), text(&ran)).unwrap();
        }
    }
    insta::assert_snapshot!("names", shown);
}

#[test]
fn outputs_match_their_published_schemas() {
    let folder = Folder::new();
    let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/proxy_config/config_dump.json");
    fs::write(folder.path("injected.yaml"), folder.run("istioctl", KUBE_INJECT).stdout).unwrap();
    for (schema, args, code) in [
        ("analysis", &["analyze", "--use-kube=false", "web.yaml", "-o", "json"][..], 0),
        ("analyzers", &["analyze", "--list-analyzers", "-o", "json"], 0),
        ("explanation", &["kube-inject", "-f", ".", "--explain", "-o", "json"], 0),
        ("explanation", &["kube-inject", "-f", ".", "--check", "-o", "json"], 3),
        ("explanation", &["uninject", "-f", ".", "--explain", "-o", "json"], 0),
        ("explanation", &["uninject", "-f", ".", "--check", "-o", "json"], 3),
        ("patch", &["kube-inject", "-f", "web.yaml", "-o", "patch"], 0),
        ("patch", &["uninject", "-f", "injected.yaml", "-o", "patch"], 0),
        ("proxy-config", &["proxy-config", "cluster", "--file", dump, "-o", "json"], 0),
        ("proxy-config", &["proxy-config", "bootstrap", "--file", dump, "-o", "json"], 0),
        ("version", &["version", "--remote=false", "--short=false", "-o", "json"], 0),
    ] {
        let ran = folder.run("istioctl", args);
        let messages = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{args:?}: {messages}");
        let value: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_ne!(value, Value::Array(Vec::new()), "{args:?}");
        let file = format!("{}/../docs/schemas/{schema}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let schema = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(validate(&value, &schema), Ok(()), "{args:?}: {value:#}");
    }
}

#[test]
fn bash_completes_commands_flags_and_values_under_each_name() {
    let folder = Folder::new();
    for name in ["istioctl", "outrigger", "kubectl-outrigger"] {
        for (words, expected) in [
            ("ta", "tag\n"),
            ("tag s", "set\nshow\n"),
            ("analyze --failure-t", "--failure-threshold\n"),
            ("analyze --failure-threshold E", "Error\n"),
            ("kube-inject --log_r", ""),
            ("completion p", "powershell\n"),
            ("kube-inject -f inj", "injected.yaml\n"),
        ] {
            fs::write(folder.path("injected.yaml"), "").unwrap();
            let words: Vec<_> = [name].into_iter().chain(words.split(' ')).collect();
            // What bash does for a tab after the last word.
            let script = format!(
                "source <({name} completion bash)\nCOMP_WORDS=({})\nCOMP_CWORD={}\n\
                 function=$(complete -p {name} | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n\
                 $function {name} \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\" 2>/dev/null\n\
                 printf '%s\\n' \"${{COMPREPLY[@]}}\" | sort | sed '/^$/d'",
                words.join(" "),
                words.len() - 1
            );
            let ran = folder.run("bash", &["--norc", "-c", &script]);
            let completed = String::from_utf8(ran.stdout).unwrap();
            assert_eq!(
                completed,
                expected,
                "{words:?}: {:?}",
                String::from_utf8_lossy(&ran.stderr)
            );
        }
    }
}

#[test]
fn zsh_completes_commands_flags_and_values_under_each_name() {
    if !is_installed("zsh") {
        return;
    }
    let folder = Folder::new();
    for name in ["istioctl", "outrigger", "kubectl-outrigger"] {
        let configuration =
            format!("autoload -U compinit && compinit -D -u\nsource <({name} completion zsh)\n");
        fs::write(folder.path(".zshrc"), configuration).unwrap();
        for (typed, expected) in UNIQUE_COMPLETIONS {
            // A shell on a terminal gets a tab; then the line becomes the argument of a command that
            // writes it down.
            let script = format!(
                "zmodload zsh/zpty; zpty shell zsh -i\n\
                 zpty -w shell $'{name} {typed}\\t\\C-e >line\\C-aprint -r -- '; zpty -w shell exit\n\
                 while zpty -r shell output; do :; done; cat line"
            );
            let ran = folder.run("zsh", &["-f", "-c", &script]);
            let line = String::from_utf8_lossy(&ran.stdout);
            assert_eq!(line.trim_end(), format!("{name} {expected}"), "{typed}: {}", text(&ran));
        }
    }
}

#[test]
fn fish_completes_commands_and_flags_under_each_name() {
    if !is_installed("fish") {
        return;
    }
    let folder = Folder::new();
    for name in ["istioctl", "outrigger", "kubectl-outrigger"] {
        // Its script does not complete the values of arguments without a flag.
        let of_flags =
            UNIQUE_COMPLETIONS.iter().filter(|(typed, _)| !typed.starts_with("completion "));
        for (typed, expected) in of_flags {
            let script =
                format!("{name} completion fish | source; complete --do-complete '{name} {typed}'");
            let ran = folder.run("fish", &["--no-config", "-c", &script]);
            let shown = text(&ran);
            let completed = shown.split(['\t', '\n']).next();
            assert_eq!(completed, expected.rsplit(' ').next(), "{typed}: {shown}");
        }
    }
}

#[test]
fn in_place_changes_no_file_if_one_is_a_pipe() {
    let folder = Folder::new();
    let line = "istioctl kube-inject -f web.yaml -f <(sed s/web/api/ web.yaml) --in-place";
    let ran = folder.run("bash", &["-c", line]);
    let shown = text(&ran);
    assert!(shown.contains("not a regular file; no file is changed\nexit 1\n"), "{shown}");
    assert_eq!(fs::read_to_string(folder.path("web.yaml")).unwrap(), WEB);
}

#[test]
fn names_cannot_forge_lines_or_colours() {
    let folder = Folder::new();
    let pod = "kind: \"Pod\\nerror: a\"\nspec: {containers: []}\napiVersion: v1\n---\n\
               apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\e[31m\\nb\"}\nspec: {hostNetwork: true, \
               containers: []}\n";
    fs::write(folder.path("c\nwarning: d\u{1b}.yaml"), pod).unwrap();
    for form in [&["-o", "yaml"][..], &["--check"], &["--explain"]] {
        let ran = folder.run("istioctl", &[&["kube-inject", "-f", "."], form].concat());
        let shown = String::from_utf8_lossy(&ran.stderr) + String::from_utf8_lossy(&ran.stdout);
        let is_forged = |line: &&str| line.starts_with("warning: d") || line.starts_with("error:");
        let messages = if form[0] == "-o" { String::from_utf8_lossy(&ran.stderr) } else { shown };
        assert!(
            !messages.contains('\u{1b}') && !messages.lines().any(|it| is_forged(&it)),
            "{messages}"
        );
    }
}

#[test]
fn json_of_several_files_can_be_read_again() {
    let folder = Folder::new();
    let line = "istioctl kube-inject -f web.yaml -f web.yaml -f <(sed s/web/api/ web.yaml) -o json 2>/dev/null";
    let json = folder.run("bash", &["-c", line]).stdout;
    fs::write(folder.path("both.json"), &json).unwrap();
    let ran = folder.run("istioctl", &["kube-inject", "-f", "both.json"]);
    assert_eq!(ran.stdout, json, "{}", text(&ran));
    let ran = folder.run("istioctl", &["uninject", "-f", "both.json", "-o", "yaml"]);
    let yaml = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(yaml.matches("\n---\n").count(), 5, "{yaml}");
    assert!(yaml.contains("name: web") && yaml.contains("name: api"), "{yaml}");
}

#[test]
fn difference_of_a_file_outside_is_for_the_root_directory() {
    let folder = Folder::new();
    fs::create_dir(folder.path("sub")).unwrap();
    let line = "cd sub && istioctl kube-inject -f ../web.yaml -o diff 2>/dev/null";
    let ran = folder.run("bash", &["-c", line]);
    let path = fs::canonicalize(folder.path("web.yaml")).unwrap();
    let expected = format!("--- a{0}\n+++ b{0}\n", path.display());
    assert!(text(&ran).starts_with(&expected), "{}", text(&ran));
}

#[test]
fn pipe_in_a_folder_is_an_error() {
    let folder = Folder::new();
    assert!(folder.run("mkfifo", &["z.yaml"]).status.success());
    let ran = folder.run("istioctl", &["kube-inject", "-f", "."]);
    let expected = "error: --filename .: ./z.yaml: not a regular file\n  hint: to read a pipe, name \
                    it with --filename\nexit 1\n";
    assert_eq!(text(&ran), expected);
}

#[test]
fn invalid_values_are_usage_errors() {
    let folder = Folder::new();
    for args in [
        &["-o", ""][..],
        &["-n", "Bad_NS"],
        &["-r", "../x"],
        &["-i", ""],
        &["--enable-native-sidecars", "maybe"],
    ] {
        let ran = folder.run("istioctl", &[&["kube-inject", "-f", "web.yaml"], args].concat());
        assert_eq!(ran.status.code(), Some(2), "{}", text(&ran));
    }
}

#[test]
fn empty_file_adds_no_document() {
    let folder = Folder::new();
    fs::write(folder.path("empty.yaml"), "").unwrap();
    fs::write(folder.path("service.yaml"), "kind: Service\n").unwrap();
    let args = ["kube-inject", "-f", "service.yaml", "-f", "empty.yaml", "-o", "yaml"];
    let ran = folder.run("istioctl", &args);
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "kind: Service\n");
}

#[test]
fn quiet_keeps_only_errors() {
    let folder = Folder::new();
    let ran = folder.run("istioctl", &["kube-inject", "-q", "-f", "web.yaml", "--check"]);
    assert_eq!(text(&ran), "exit 3\n");
    let ran = folder.run("istioctl", &["kube-inject", "-q", "-f", "missing.yaml"]);
    let error = "error: --filename missing.yaml: No such file or directory\nexit 1\n";
    assert_eq!(text(&ran), error);
}

#[test]
fn colours_can_be_forced_and_say_nothing_else() {
    let folder = Folder::new();
    let analyze = &["analyze", "--use-kube=false", "web.yaml", "--failure-threshold", "Info"];
    let plain = folder.run("istioctl", analyze);
    let colored = folder.run("istioctl", &[analyze, &["--color"][..]].concat());
    let forced = folder.with_environment(&[("CLICOLOR_FORCE", "1")], "istioctl", analyze);
    let refused = folder.with_environment(
        &[("CLICOLOR_FORCE", "1")],
        "istioctl",
        &[analyze, &["--color=false"][..]].concat(),
    );
    assert!(!text(&plain).contains('\u{1b}'), "{}", text(&plain));
    assert_eq!(text(&refused), text(&plain));
    assert_eq!(text(&forced), text(&colored));
    let escapes = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    assert_ne!(text(&colored), text(&plain));
    assert_eq!(escapes.replace_all(&text(&colored), ""), text(&plain));
    let zero = folder.with_environment(&[("CLICOLOR_FORCE", "0")], "istioctl", analyze);
    assert_eq!(text(&zero), text(&plain));
    let usage = &["kube-inject", "--color=false"];
    let refused = folder.with_environment(&[("CLICOLOR_FORCE", "1")], "istioctl", usage);
    assert!(!text(&refused).contains('\u{1b}'), "{}", text(&refused));
}

#[test]
fn terminal_has_colours_and_its_width() {
    let folder = Folder::new();
    let analyze = &["analyze", "--use-kube=false", "web.yaml", "--failure-threshold", "Info"];
    let shown = folder.on_terminal(&[], analyze);
    assert!(shown.contains("\u{1b}[31mError:") && shown.contains("\u{1b}[33mWarning"), "{shown}");
    assert!(!folder.on_terminal(&[("NO_COLOR", "1")], analyze).contains('\u{1b}'));
    let help = folder.on_terminal(&[("NO_COLOR", "1")], &["kube-inject", "--help"]);
    let flags = help
        .lines()
        .filter(|line| !line.starts_with("  istioctl ") && !line.starts_with("Usage: "));
    let longest = flags.map(|line| line.trim_end().chars().count()).max();
    assert!(longest.is_some_and(|longest| longest <= usize::from(COLUMNS)), "{longest:?}\n{help}");
    assert!(folder.on_terminal(&[], &["kube-inject", "--help"]).contains("\u{1b}["));
}

#[test]
fn request_timeout_ends_a_request_without_an_answer() {
    let folder = Folder::new();
    // Connections are accepted by the kernel, and never read.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    fs::write(folder.path("kubeconfig"), KUBECONFIG.replace("PORT", &port)).unwrap();
    let start = Instant::now();
    let args = ["tag", "list", "-c", "kubeconfig", "--request-timeout", "1s"];
    let ran = folder.run("istioctl", &args);
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn version_without_a_cluster_is_quick_and_succeeds() {
    let folder = Folder::new();
    let own = format!("client version: {}\n", program_version::title());
    let ran = folder.run("istioctl", &["version"]);
    assert_eq!(text(&ran), format!("{own}exit 0\n"));
    // Nothing listens there.
    let kubeconfig = KUBECONFIG.replace("PORT", "1");
    fs::write(folder.path("kubeconfig"), kubeconfig).unwrap();
    let ran = folder.with_environment(&[("KUBECONFIG", "kubeconfig")], "istioctl", &["version"]);
    let shown = text(&ran);
    assert!(shown.starts_with(&format!("{own}note: the versions in the cluster are")), "{shown}");
    assert!(shown.contains("KUBECONFIG kubeconfig, server http://"), "{shown}");
    assert!(shown.ends_with("\nexit 0\n"), "{shown}");
    let ran = folder.run("istioctl", &["version", "-c", "kubeconfig"]);
    let shown = text(&ran);
    assert!(shown.starts_with(&format!("{own}error: --kubeconfig kubeconfig, ")), "{shown}");
    assert!(shown.ends_with("\nexit 1\n"), "{shown}");
}

/// A folder with a manifest, and the program under its names in `PATH`.
struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        for name in ["istioctl", "outrigger", "kubectl-outrigger"] {
            let link = folder.path().join("bin").join(name);
            symlink(env!("CARGO_BIN_EXE_istioctl"), link).unwrap();
        }
        fs::write(folder.path().join("web.yaml"), WEB).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        self.with_environment(&[], program, args)
    }

    fn with_environment(&self, set: &[(&str, &str)], program: &str, args: &[&str]) -> Output {
        let usual = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{usual}", self.path("bin").display());
        let mut command = Command::new("env");
        command.arg(program).args(args).current_dir(self.folder.path()).env_clear();
        command.env("PATH", path).env("HOME", self.folder.path()).envs(set.iter().copied());
        command.output().unwrap()
    }

    /// Returns what `istioctl` shows on a terminal.
    fn on_terminal(&self, set: &[(&str, &str)], args: &[&str]) -> String {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let terminal = File::options().read(true).write(true).open(name.to_str().unwrap());
        let terminal = terminal.unwrap();
        let size = Winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_istioctl"));
        command.args(args).current_dir(self.folder.path()).env_clear();
        command.env("TERM", "xterm").envs(set.iter().copied()).stdin(Stdio::null());
        command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
        let mut child = command.spawn().unwrap();
        // A terminal ends when the last process has closed it; reading then fails.
        drop(command);
        let (mut shown, mut bytes) = (Vec::new(), [0; 4096]);
        let mut master = File::from(master);
        while let Ok(count @ 1..) = master.read(&mut bytes) {
            shown.extend(&bytes[..count]);
        }
        child.wait().unwrap();
        String::from_utf8(shown).unwrap().replace('\r', "")
    }
}

/// Output, messages and exit code of a program.
fn text(ran: &Output) -> String {
    let [output, messages] = [&ran.stdout, &ran.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{output}{messages}exit {}\n", ran.status.code().unwrap())
}

/// True if the shell can be run; records the tests that are left out otherwise.
fn is_installed(shell: &str) -> bool {
    let installed = Command::new(shell).arg("--version").output().is_ok();
    if !installed {
        e2e::skipped_tests::record("completion", &format!("{shell} is not installed")).unwrap();
    }
    installed
}

/// Words of a command line, the last one in part, and what a tab makes of them.
const UNIQUE_COMPLETIONS: [(&str, &str); 5] = [
    ("ta", "tag"),
    ("tag se", "tag set"),
    ("analyze --failure-t", "analyze --failure-threshold"),
    ("analyze --failure-threshold E", "analyze --failure-threshold Error"),
    ("completion p", "completion powershell"),
];

/// Width of the terminal.
const COLUMNS: u16 = 60;

const KUBE_INJECT: &[&str] = &["kube-inject", "-f", "web.yaml"];

const WEB: &str = "\
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: app}, {name: istio-proxy, image: auto}]
---
apiVersion: v1
kind: Pod
metadata: {name: agent}
spec: {hostNetwork: true, containers: [{name: agent, image: agent}]}
";

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
clusters: [{name: gone, cluster: {server: 'http://127.0.0.1:PORT'}}]
contexts: [{name: gone, context: {cluster: gone, user: ''}}]
current-context: gone
";
