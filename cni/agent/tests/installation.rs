//! The agent as a process: installation under changes, kills and missing folders, without an API server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use e2e::skipped_tests;
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn entry_follows_every_kind_of_change() {
    let node = Node::new();
    let _agent = node.agent(&[]);
    node.wait_until("it is installed", |node| node.is_captured() && node.is_ready());
    assert_eq!(fs::read_to_string(node.plugins().join("istio-cni")).unwrap(), PLUGIN);
    assert_eq!(fs::metadata(node.own()).unwrap().permissions().mode() & 0o777, 0o600);
    let changed = PRIMARY.replace("bridge", "ptp");
    // By rename, in place, emptied and written, removed, and the plugin with it.
    fs::write(node.file("new"), &changed).unwrap();
    fs::rename(node.file("new"), node.primary()).unwrap();
    node.wait_until("the copy follows", |node| node.copies(&changed));
    fs::write(node.primary(), PRIMARY).unwrap();
    node.wait_until("the copy follows", |node| node.copies(PRIMARY));
    fs::write(node.primary(), "").unwrap();
    node.wait_until("the file is named", |node| node.log().contains("10-lab.conflist: EOF"));
    assert!(node.copies(PRIMARY), "an empty file has changed the copy");
    fs::write(node.primary(), &changed).unwrap();
    node.wait_until("the copy follows", |node| node.copies(&changed));
    fs::write(node.own(), "{").unwrap();
    fs::remove_file(node.plugins().join("istio-cni")).unwrap();
    node.wait_until("both are back", |node| {
        node.is_captured() && node.plugins().join("istio-cni").exists()
    });
}

#[test]
fn killed_agent_leaves_the_old_state_or_the_new_one() {
    let node = Node::new();
    for round in 0..80_u64 {
        if round % 2 == 0 {
            let _ = fs::remove_file(node.own());
            let _ = fs::remove_file(node.plugins().join("istio-cni"));
        }
        let mut agent = node.agent(&[]);
        thread::sleep(Duration::from_micros(round * 311 % 25_000));
        agent.0.kill().unwrap();
        agent.0.wait().unwrap();
        assert_eq!(fs::read_to_string(node.primary()).unwrap(), PRIMARY);
        let plugin = fs::read_to_string(node.plugins().join("istio-cni"));
        assert!(plugin.as_ref().is_ok_and(|text| text == PLUGIN) || plugin.is_err());
        if node.own().exists() {
            assert!(node.is_captured(), "{:?}", fs::read_to_string(node.own()));
            assert!(plugin.is_ok(), "a configuration without its plugin");
        }
    }
    let _agent = node.agent(&[]);
    node.wait_until("it is installed", Node::is_ready);
    let hidden = |folder: PathBuf| {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with('.')).count()
    };
    assert_eq!((hidden(node.conf()), hidden(node.plugins())), (0, 0), "temporary files");
}

#[test]
fn program_that_removes_the_entry_all_the_time_is_named() {
    let node = Node::new();
    let _agent = node.agent(&[]);
    node.wait_until("it is installed", Node::is_ready);
    let mut removed = 0;
    node.wait_until("the file is named", |node| {
        removed += u32::from(fs::remove_file(node.own()).is_ok());
        node.log().contains("00-istio-cni.conflist: another program has removed")
    });
    assert!(removed <= 6, "{removed} writes at once");
    assert!(!node.is_ready());
    node.wait_until("it is installed again", Node::is_ready);
}

#[test]
fn two_agents_agree() {
    let node = Node::new();
    let _agents = [node.agent(&[]), node.agent(&[])];
    for number in 0..5 {
        let changed = PRIMARY.replace("bridge", &format!("bridge{number}"));
        fs::write(node.primary(), &changed).unwrap();
        node.wait_until("the copy follows", |node| node.copies(&changed));
    }
}

#[test]
fn missing_and_unwritable_folders_are_named_with_a_hint() {
    let node = Node::new();
    fs::remove_dir_all(node.conf()).unwrap();
    fs::remove_dir_all(node.plugins()).unwrap();
    let _agent = node.agent(&[]);
    node.wait_until("the folder of plugins is named", |node| {
        let log = node.log();
        log.contains("plugins/istio-cni: writing the plugin: No such file")
            && log.contains("hint: mount the folder")
    });
    fs::create_dir(node.plugins()).unwrap();
    node.wait_until("the folder of configurations is named", |node| {
        node.log().contains("net.d: reading the folder: No such file")
    });
    assert!(!node.is_ready());
    let ready = node.run(&["ready"]);
    assert_eq!(ready.status.code(), Some(1));
    fs::create_dir(node.conf()).unwrap();
    node.wait_until("the missing network is named", |node| {
        node.log().contains("no configuration of the network of pods is there yet")
    });
    fs::write(node.primary(), PRIMARY).unwrap();
    node.wait_until("it is installed", |node| node.is_ready() && node.is_captured());
}

#[test]
fn read_only_folder_is_named_with_a_hint() {
    let node = Node::new();
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
    let own = ["--user", "--map-root-user", "--mount", "sh", "-c"];
    if !Command::new("unshare").args(own).arg("true").status().is_ok_and(|status| status.success())
    {
        return skipped_tests::record("read-only folders", "no user namespaces").unwrap();
    }
    let agent = node.command(&[]);
    let mut limited = Command::new("unshare");
    limited.args(own).args([script.as_ref(), node.conf().as_os_str(), agent.get_program()]);
    limited.args(agent.get_args()).stderr(node.log_file());
    let _agent = Agent(limited.spawn().unwrap());
    node.wait_until("the folder is named", |node| {
        let log = node.log();
        log.contains("00-istio-cni.conflist: writing: Read-only file system")
            && log.contains("hint: mount the folder writable")
    });
    assert!(!node.is_ready());
    assert_eq!(fs::read_dir(node.conf()).unwrap().count(), 1);
}

#[test]
fn uninstall_is_explicit_and_leaves_the_folders_as_they_were() {
    let node = Node::new();
    for mode in ["own", "dropin", "edit", "standalone"] {
        let mut agent = node.agent(&["--config-mode", mode]);
        node.wait_until("it is installed", Node::is_ready);
        let refused = node.run(&["uninstall"]);
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(message.contains("install-cni runs on this node"), "{message}");
        agent.0.kill().unwrap();
        agent.0.wait().unwrap();
        let left = fs::read_dir(node.conf()).unwrap().count();
        assert!(left > 1 || mode == "edit", "{mode}: its end has removed something");
        assert!(node.run(&["uninstall"]).status.success());
        assert!(node.plugins().join("istio-cni").exists(), "pods may need the plugin");
        assert!(node.run(&["uninstall", "--purge"]).status.success());
        assert!(!node.plugins().join("istio-cni").exists());
        assert_eq!(fs::read_dir(node.conf()).unwrap().count(), 1, "{mode}");
        assert_eq!(fs::read_to_string(node.primary()).unwrap(), PRIMARY, "{mode}");
    }
}

#[test]
fn plugin_stays_while_attachments_name_it() {
    let node = Node::new();
    let cache = node.0.path().join("cache");
    fs::create_dir(&cache).unwrap();
    // {"plugins":[{"type":"istio-cni"}]}
    let text = r#"{"config":"eyJwbHVnaW5zIjpbeyJ0eXBlIjoiaXN0aW8tY25pIn1dfQ=="}"#;
    fs::write(cache.join("lab-1-eth0"), text).unwrap();
    let refused = node.run(&["uninstall", "--purge"]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("1 attachments of pods name the plugin"), "{message}");
    assert_eq!(refused.status.code(), Some(1));
}

/// Folders of a node.
struct Node(TempDir);

/// A running agent, which ends with the value.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Node {
    fn new() -> Self {
        let node = Self(TempDir::new().unwrap());
        for folder in [node.conf(), node.plugins()] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(node.primary(), PRIMARY).unwrap();
        fs::write(node.file("../istio-cni"), PLUGIN).unwrap();
        node
    }

    fn conf(&self) -> PathBuf {
        self.0.path().join("net.d")
    }

    fn plugins(&self) -> PathBuf {
        self.0.path().join("plugins")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.conf().join(name)
    }

    fn primary(&self) -> PathBuf {
        self.file("10-lab.conflist")
    }

    fn own(&self) -> PathBuf {
        self.file("00-istio-cni.conflist")
    }

    fn command(&self, args: &[&str]) -> Command {
        let path = |name: &str| self.0.path().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_install-cni"));
        command.args(args).env_clear();
        for (flag, value) in [
            ("--mounted-cni-net-dir", path("net.d")),
            ("--mounted-cni-bin-dir", path("plugins")),
            ("--mounted-cni-cache-dir", path("cache")),
            ("--cni-agent-run-dir", path("run")),
            ("--plugin", path("istio-cni")),
        ] {
            command.arg(flag).arg(value);
        }
        command
    }

    fn agent(&self, args: &[&str]) -> Agent {
        let mut command = self.command(args);
        Agent(command.stderr(self.log_file()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn log_file(&self) -> File {
        File::options().create(true).append(true).open(self.0.path().join("log")).unwrap()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.0.path().join("log")).unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        self.0.path().join("run/ready").exists()
    }

    /// True if our file is a copy of this text with the entry behind it.
    fn copies(&self, text: &str) -> bool {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let own = read(&fs::read_to_string(self.own()).unwrap_or_default());
        let primary = read(text);
        let plugins = |list: &Value| list["plugins"].as_array().cloned().unwrap_or_default();
        let (own_plugins, others) = (plugins(&own), plugins(&primary));
        own["name"] == primary["name"]
            && own_plugins.len() == others.len() + 1
            && own_plugins.starts_with(&others)
            && own_plugins.last().is_some_and(|entry| entry["type"] == "istio-cni")
    }

    fn is_captured(&self) -> bool {
        fs::read_to_string(self.primary()).is_ok_and(|primary| self.copies(&primary))
    }

    fn wait_until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what}: never\n{}", self.log());
            thread::sleep(Duration::from_millis(2));
        }
    }
}

const PRIMARY: &str =
    "{\"cniVersion\": \"1.0.0\", \"name\": \"lab\",\n \"plugins\": [{\"type\": \"bridge\"}]}\n";
const PLUGIN: &str = "the plugin";
