//! The agent as a process: installation under changes, kills and missing folders, without an API server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use e2e::{skipped_tests, wait};
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
    node.replace(&node.primary(), &changed).unwrap();
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
    let mut hits = 0;
    for mode in ["own", "dropin", "edit"] {
        let node = Node::new();
        for (step, is_reached) in STEPS {
            for _ in 0..6 {
                assert!(node.run(&["uninstall", "--purge"]).status.success(), "{mode}: {step}");
                let mut agent = node.agent(&["--config-mode", mode]);
                let is_hit = node.is_true_before_it_is_ready(is_reached);
                agent.0.kill().unwrap();
                agent.0.wait().unwrap();
                hits += u32::from(is_hit);
                node.is_in_one_piece();
            }
            // What the killed agent has found is no sign of the next.
            let _ = fs::remove_file(node.0.path().join("run/ready"));
            let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
            File::open(node.conf()).unwrap().set_times(times).unwrap();
            let _agent = node.agent(&["--config-mode", mode]);
            node.wait_until("it is installed", |node| node.is_ready() && node.is_called());
            let loaded = fs::metadata(node.conf()).unwrap().modified().unwrap();
            assert!(loaded > SystemTime::UNIX_EPOCH, "{mode}: {step}: the runtime was not told");
            let hidden = |folder: PathBuf| {
                let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
                names.filter(|name| name.to_string_lossy().starts_with('.')).count()
            };
            assert_eq!((hidden(node.conf()), hidden(node.plugins())), (0, 0), "temporary files");
        }
    }
    eprintln!("{hits} agents were killed between two steps");
    assert!(hits > 0, "no agent was killed between two steps");
}

/// True at a step.
type Reached = fn(&Node) -> bool;

/// Steps of an installation, at which an agent is killed.
const STEPS: [(&str, Reached); 4] = [
    ("the plugin is being written", |node| !node.has_plugin() && node.has_temporary("plugins")),
    ("the plugin is there", |node| node.has_plugin() && !node.is_called()),
    ("the configuration is being written", |node| node.has_temporary("net.d")),
    ("the configuration is there", Node::is_called),
];

#[test]
fn program_that_removes_the_entry_all_the_time_is_named() {
    let node = Node::new();
    let _agent = node.agent(&[]);
    node.wait_until("it is installed", Node::is_ready);
    let mut removed = 0;
    node.wait_until("the file is named", |node| {
        removed += u32::from(fs::remove_file(node.own()).is_ok());
        node.log().contains("00-istio-cni.conflist: another program has removed or changed")
    });
    assert!(removed <= 6, "{removed} writes at once");
    assert!(!node.is_ready());
    node.wait_until("it is installed again", Node::is_ready);
}

/// Another installer adds its plugin to the file that the runtime uses, which is ours.
#[test]
fn plugin_that_another_program_adds_behind_the_entry_stays() {
    let node = Node::new();
    let _agent = node.agent(&["--config-mode", "own"]);
    node.wait_until("it is installed", Node::is_ready);
    let mut list: Value = serde_json::from_str(&fs::read_to_string(node.own()).unwrap()).unwrap();
    list["plugins"].as_array_mut().unwrap().push(serde_json::json!({"type": "rival"}));
    // The agent would replace a file that is half written, and cannot be read.
    node.replace(&node.own(), &list.to_string()).unwrap();
    // The agent looks at both when one changes.
    fs::remove_file(node.plugins().join("istio-cni")).unwrap();
    node.wait_until("the plugin is back", |node| node.has_plugin() && node.is_ready());
    assert_eq!(node.called(), ["bridge", "istio-cni", "rival"]);
    fs::write(node.primary(), PRIMARY.replace("bridge", "ptp")).unwrap();
    node.wait_until("the copy follows", |node| node.called() == ["ptp", "istio-cni"]);
}

#[test]
fn entry_stays_while_the_primary_is_rewritten_100_times_a_second() {
    for mode in ["own", "dropin"] {
        let node = Node::new();
        let _agent = node.agent(&["--config-mode", mode]);
        node.wait_until("it is installed", |node| node.is_ready() && node.is_called());
        let text = |number: usize| PRIMARY.replace("1.0.0", ["0.4.0", "1.0.0"][number % 2]);
        for number in 0..200 {
            let text = text(number);
            match number % 3 {
                0 => node.replace(&node.primary(), &text),
                1 => fs::write(node.primary(), text),
                _ => fs::remove_file(node.primary()).and_then(|()| fs::write(node.primary(), text)),
            }
            .unwrap();
            node.is_in_one_piece();
            assert!(node.is_called(), "{mode}: rewrite {number}");
            thread::sleep(Duration::from_millis(10));
        }
        node.wait_until("the last one is in force", |node| {
            node.is_ready() && (mode == "dropin" || node.copies(&text(199)))
        });
    }
}

#[test]
fn first_file_that_cannot_be_read_is_named_and_no_other_network_is_chosen() {
    for (what, make) in UNREADABLE {
        let node = Node::new();
        fs::rename(node.primary(), node.file("87-podman.conflist")).unwrap();
        make(&node);
        let _agent = node.agent(&[]);
        node.wait_until("the file is named", |node| {
            node.log().lines().any(|line| line.contains("net.d: 10-"))
        });
        assert!(!node.is_ready() && !node.own().exists(), "{what}: {}", node.log());
        assert!(node.has_plugin(), "{what}");
    }
}

type Made = fn(&Node);

/// Ways in which a first file cannot be read.
const UNREADABLE: [(&str, Made); 3] = [
    ("a link to a file that is not mounted", |node| {
        std::os::unix::fs::symlink("/nowhere/a.conflist", node.primary()).unwrap();
    }),
    ("a pipe", |node| {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, node.primary(), mode).unwrap();
    }),
    ("a name that is not UTF-8", |node| {
        let name = OsStr::from_bytes(b"10-\xff.conflist");
        fs::write(node.conf().join(name), PRIMARY).unwrap();
    }),
];

#[test]
fn plugin_that_cannot_be_executed_is_replaced() {
    for mode in [0o644, 0o777, 0o4755] {
        let node = Node::new();
        let plugin = node.plugins().join("istio-cni");
        fs::write(&plugin, if mode == 0o777 { PLUGIN } else { "old" }).unwrap();
        fs::set_permissions(&plugin, fs::Permissions::from_mode(mode)).unwrap();
        let _agent = node.agent(&[]);
        node.wait_until("it is installed", Node::is_ready);
        let now = || fs::metadata(&plugin).unwrap().permissions().mode() & 0o7777;
        assert_eq!(now(), 0o755, "{mode:o}");
        fs::set_permissions(&plugin, fs::Permissions::from_mode(mode)).unwrap();
        node.wait_until("its mode is back", |_| now() == 0o755);
        assert_eq!(fs::read_to_string(&plugin).unwrap(), PLUGIN, "{mode:o}");
    }
}

#[test]
fn agents_of_two_versions_replace_the_plugin_a_few_times_only() {
    let node = Node::new();
    let other = node.0.path().join("other");
    fs::write(&other, "another version").unwrap();
    let _agents = [node.agent(&[]), node.agent(&["--plugin", &other.display().to_string()])];
    node.wait_until("the fight is named", |node| {
        node.log()
            .contains("plugins/istio-cni: another program has removed or changed the plugin again")
    });
    let inode = |node: &Node| fs::metadata(node.plugins().join("istio-cni")).unwrap().ino();
    let (mut last, mut changes) = (inode(&node), 0);
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let now = inode(&node);
        changes += u32::from(now != last);
        last = now;
        thread::sleep(Duration::from_millis(1));
    }
    assert!(changes <= 4, "{changes} times in two seconds");
}

#[test]
fn entry_is_back_in_a_file_behind_a_link() {
    let node = Node::new();
    let target = node.0.path().join("lab.conflist");
    fs::rename(node.primary(), &target).unwrap();
    std::os::unix::fs::symlink(&target, node.primary()).unwrap();
    let _agent = node.agent(&["--config-mode", "edit"]);
    node.wait_until("it is installed", |node| node.is_ready() && node.is_called());
    let epoch = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
    File::open(node.conf()).unwrap().set_times(epoch).unwrap();
    fs::write(&target, PRIMARY).unwrap();
    node.wait_until("the entry is back", Node::is_called);
    node.wait_until("the runtime is told", |node| {
        fs::metadata(node.conf()).unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH
    });
    assert!(fs::symlink_metadata(node.primary()).unwrap().is_symlink());
    // Its owner takes it away and writes it anew.
    fs::remove_file(&target).unwrap();
    node.wait_until("the missing file is named", |node| node.log().contains("No such file"));
    fs::write(&target, PRIMARY).unwrap();
    node.wait_until("the entry is back", Node::is_called);
}

#[test]
fn file_of_another_user_keeps_its_mode() {
    if !rustix::process::geteuid().is_root() {
        skipped_tests::record("a file of another user", "not root").unwrap();
        return;
    }
    let node = Node::new();
    fs::set_permissions(node.primary(), fs::Permissions::from_mode(0o644)).unwrap();
    std::os::unix::fs::chown(node.primary(), Some(65_432), None).unwrap();
    let agent = node.agent(&["--config-mode", "edit"]);
    node.wait_until("it is installed", |node| node.is_ready() && node.is_called());
    drop(agent);
    assert!(node.run(&["uninstall"]).status.success());
    assert_eq!(fs::read_to_string(node.primary()).unwrap(), PRIMARY);
    assert_eq!(fs::metadata(node.primary()).unwrap().permissions().mode() & 0o7777, 0o644);
}

#[test]
fn link_with_a_name_of_the_agent_is_replaced_and_its_target_stays() {
    for (mode, link) in [
        ("own", "00-istio-cni.conflist"),
        ("dropin", "lab/50-istio-cni.conf"),
        ("edit", "../plugins/istio-cni"),
    ] {
        let node = Node::new();
        let target = node.0.path().join("target");
        fs::write(&target, "{}").unwrap();
        fs::create_dir(node.file("lab")).unwrap();
        std::os::unix::fs::symlink(&target, node.file(link)).unwrap();
        let agent = node.agent(&["--config-mode", mode]);
        node.wait_until("it is installed", |node| node.is_ready() && node.is_called());
        drop(agent);
        assert!(fs::symlink_metadata(node.file(link)).unwrap().is_file(), "{mode}");
        assert!(node.run(&["uninstall", "--purge"]).status.success(), "{mode}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "{}", "{mode}");
        assert!(fs::symlink_metadata(node.file(link)).is_err(), "{mode}");
    }
}

#[test]
fn plugin_stays_while_a_file_may_name_it() {
    let named = PRIMARY.replace("}]", "}, {\"type\": \"istio-cni\"}]");
    for (file, text) in [
        ("10-lab.conflist", format!("{named},")),
        ("10-lab.conflist", format!("{named}{}", " ".repeat(5 << 20))),
        ("10-lab.conflist", named.replace("1.0.0", "\\ud800")),
        ("lab/60-mesh.conf", r#"{"type":"istio-cni"}"#.to_owned()),
        ("linked/60-mesh.conf", r#"{"type":"istio\u002dcni"}"#.to_owned()),
        ("00-multus.conf", format!(r#"{{"name":"m","type":"multus","delegates":[{named}]}}"#)),
    ] {
        let node = Node::new();
        drop(node.agent(&[]));
        fs::create_dir_all(node.file("lab")).unwrap();
        fs::create_dir(node.0.path().join("target")).unwrap();
        std::os::unix::fs::symlink("../target", node.file("linked")).unwrap();
        fs::write(node.file(file), &text).unwrap();
        fs::write(node.plugins().join("istio-cni"), PLUGIN).unwrap();
        let refused = node.run(&["uninstall", "--purge"]);
        let message = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{file}: {message}");
        assert!(message.contains(&format!("{file} in ")), "{file}: {message}");
        assert!(node.has_plugin(), "{file}: {message}");
    }
}

#[test]
fn file_that_cannot_be_judged_is_named_with_the_reason() {
    for (file, is_refused) in [("10-pipe.conf", true), ("lab/pipe.conf", false)] {
        let node = Node::new();
        fs::create_dir(node.file("lab")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, node.file(file), mode).unwrap();
        // In the folder itself, its entry may still be there.
        assert_eq!(node.run(&["uninstall"]).status.success(), !is_refused, "{file}");
        let refused = node.run(&["uninstall", "--purge"]);
        let message = String::from_utf8(refused.stderr).unwrap();
        let named = format!("{file} in {}", node.conf().display());
        assert!(message.contains(&named), "{message}");
        assert!(message.contains(" may name the plugin (not a regular file)"), "{message}");
        assert_eq!(node.run(&["ready", "--uninstalled"]).status.success(), !is_refused, "{file}");
    }
}

#[test]
fn uninstall_removes_what_killed_agents_left() {
    let node = Node::new();
    fs::create_dir(node.file("lab")).unwrap();
    let other = node.0.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::rename(node.primary(), other.join("lab.conflist")).unwrap();
    std::os::unix::fs::symlink("../other/lab.conflist", node.primary()).unwrap();
    for file in
        [".outrigger-1", "lab/.outrigger-2", "../plugins/.outrigger-3", "../other/.outrigger-4"]
    {
        fs::write(node.file(file), "").unwrap();
    }
    assert!(node.run(&["uninstall"]).status.success());
    let left = |folder: PathBuf| fs::read_dir(folder).unwrap().count();
    assert_eq!((left(node.conf()), left(node.plugins()), left(other)), (1, 0, 1));
}

#[test]
fn run_folder_that_cannot_be_made_delays_no_installation() {
    let node = Node::new();
    fs::write(node.0.path().join("run"), "a file").unwrap();
    let _agent = node.agent(&[]);
    node.wait_until("it is installed", |node| node.is_captured() && node.has_plugin());
    node.wait_until("the folder is named", |node| node.log().contains("--cni-agent-run-dir "));
}

#[test]
fn two_agents_agree() {
    let node = Node::new();
    let mut agents = vec![node.agent(&[]), node.agent(&[])];
    let follows = |number: usize, agents: &mut Vec<Agent>| {
        let changed = PRIMARY.replace("bridge", &format!("bridge{number}"));
        fs::write(node.primary(), &changed).unwrap();
        node.wait_until("the copy follows", |node| node.copies(&changed));
        for agent in agents {
            assert_eq!(agent.0.try_wait().unwrap(), None, "{}", node.log());
        }
    };
    for number in 0..6 {
        follows(number, &mut agents);
        // The other one stays, and is the only one for a moment.
        agents.remove(0);
        agents.push(node.agent(&[]));
    }
    agents.remove(0);
    follows(6, &mut agents);
}

#[test]
fn emptied_run_folder_is_filled_again() {
    let node = Node::new();
    let _agent = node.agent(&[]);
    let is_whole = |node: &Node| node.is_ready() && node.0.path().join("run/agent.sock").exists();
    node.wait_until("it is installed", is_whole);
    fs::remove_dir_all(node.0.path().join("run")).unwrap();
    node.wait_until("socket and readiness are back", is_whole);
    let socket = node.0.path().join("run/agent.sock");
    std::os::unix::net::UnixStream::connect(socket).unwrap();
    let folder = fs::metadata(node.0.path().join("run")).unwrap().permissions();
    assert_eq!(folder.mode() & 0o777, 0o700);
}

#[test]
fn taken_port_of_the_metrics_delays_nothing_but_the_metrics() {
    let node = Node::new();
    let taken = TcpListener::bind("[::]:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let _agent = node.agent(&["--monitoring-port", &port.to_string()]);
    node.wait_until("it is installed", |node| node.is_ready() && node.is_captured());
    node.wait_until("the port is named", |node| {
        node.log().contains(&format!("--monitoring-port {port}: Address already in use"))
    });
    drop(taken);
    node.wait_until("the metrics are served", |_| {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).is_ok() && answer.contains("istio_cni_install")
    });
}

#[test]
fn folders_without_a_watch_are_looked_at() {
    let node = Node::new();
    let script = "echo 0 >/proc/sys/user/max_inotify_instances && exec \"$0\" \"$@\"";
    let own = ["--user", "--map-root-user", "sh", "-c", script];
    if !Command::new("unshare").args(own).arg("true").status().is_ok_and(|status| status.success())
    {
        return skipped_tests::record("folders without a watch", "no user namespaces").unwrap();
    }
    let agent = node.command(&[]);
    let mut limited = Command::new("unshare");
    limited.args(own).arg(agent.get_program()).args(agent.get_args()).stderr(node.log_file());
    let _agent = Agent(limited.spawn().unwrap());
    node.wait_until("it is installed", |node| node.is_ready() && node.is_captured());
    assert!(node.log().contains("watching for changes: inotify: Too many open files"));
    let changed = PRIMARY.replace("bridge", "ptp");
    fs::write(node.primary(), &changed).unwrap();
    node.wait_until("the copy follows", |node| node.copies(&changed));
}

#[test]
fn empty_variables_are_not_set() {
    let node = Node::new();
    let mut command = node.command(&[]);
    for name in ["CNI_CONF_NAME", "REPAIR_LABEL_PODS", "MONITORING_PORT", "EXCLUDE_NAMESPACES"] {
        command.env(name, "");
    }
    let _agent = Agent(command.stderr(node.log_file()).spawn().unwrap());
    node.wait_until("it is installed", |node| node.is_ready() && node.is_captured());
    let own: Value = serde_json::from_str(&fs::read_to_string(node.own()).unwrap()).unwrap();
    assert_eq!(own["plugins"][1]["exclude_namespaces"], serde_json::json!([]));
}

#[test]
fn folder_with_the_name_of_a_configuration_is_none() {
    let node = Node::new();
    fs::create_dir(node.file("01-lab.conflist")).unwrap();
    let _agent = node.agent(&[]);
    node.wait_until("it is installed", |node| node.is_ready() && node.is_captured());
}

#[test]
fn plugin_has_the_name_of_the_entry_whatever_its_source_is_called() {
    let node = Node::new();
    let source = node.0.path().join("istio-cni-2");
    fs::write(&source, PLUGIN).unwrap();
    let source = source.display().to_string();
    let agent = node.agent(&["--plugin", &source]);
    node.wait_until("it is installed", |node| node.is_ready() && node.has_plugin());
    drop(agent);
    assert!(node.run(&["uninstall", "--purge", "--plugin", &source]).status.success());
    assert_eq!(fs::read_dir(node.plugins()).unwrap().count(), 0);
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
    let Some(_agent) = node.agent_after(script) else {
        return skipped_tests::record("read-only folders", "no user namespaces").unwrap();
    };
    node.wait_until("the folder is named", |node| {
        let log = node.log();
        log.contains("00-istio-cni.conflist: writing: Read-only file system")
            && log.contains("hint: mount the folder writable")
    });
    assert!(!node.is_ready());
    assert_eq!(fs::read_dir(node.conf()).unwrap().count(), 1);
}

#[test]
fn full_disk_is_named_and_no_other_program() {
    let node = Node::new();
    // One page for the primary, and two that are taken until a file asks for them.
    let script =
        "mount -t tmpfs -o size=12k none \"$0\" && echo \"$PRIMARY\" > \"$0/10-lab.conflist\" &&
        head -c 8000 /dev/zero > \"$0/filler\" || exit 1
        (while [ ! -e \"$0/../free\" ] && [ -e \"$0\" ]; do sleep 0.02; done; rm -f \"$0/filler\") &
        exec \"$@\"";
    let Some(_agent) = node.agent_after(script) else {
        return skipped_tests::record("full disks", "no user namespaces").unwrap();
    };
    node.wait_until("the file system is named", |node| {
        let log = node.log();
        log.contains("00-istio-cni.conflist: writing: No space left on device")
            && log.contains("hint: free space on this file system")
    });
    assert!(!node.is_ready());
    fs::write(node.0.path().join("free"), "").unwrap();
    node.wait_until("it is installed", Node::is_ready);
    assert!(!node.log().contains("another program"), "{}", node.log());
}

#[test]
fn agent_that_waits_for_the_lock_ends_on_sigterm() {
    let node = Node::new();
    let run = node.0.path().join("run");
    fs::create_dir(&run).unwrap();
    let lock = File::create(run.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut agent = node.agent(&[]);
    node.wait_until("it runs", |_| run.join("agent.sock").exists());
    let process = rustix::process::Pid::from_child(&agent.0);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    node.wait_until("it ends", |_| agent.0.try_wait().unwrap().is_some());
    assert!(!node.has_plugin());
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
        assert!(!node.run(&["ready", "--uninstalled"]).status.success(), "{mode}");
        assert!(node.run(&["uninstall"]).status.success());
        assert!(node.run(&["ready", "--uninstalled"]).status.success(), "{mode}");
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
    assert!(message.contains("lab-1-eth0 in "), "{message}");
    assert_eq!(refused.status.code(), Some(1));
    fs::write(cache.join("lab-1-eth0"), r#"{"config":"e30="}"#).unwrap();
    for undecided in ["", r#"{"config":"!!"}"#, r#"{"config":5}"#] {
        fs::write(cache.join("lab-2-eth0"), undecided).unwrap();
        let refused = node.run(&["uninstall", "--purge"]);
        assert_eq!(refused.status.code(), Some(1), "{undecided:?}: it may just be written");
    }
    fs::remove_file(cache.join("lab-2-eth0")).unwrap();
    assert!(node.run(&["uninstall", "--purge"]).status.success());
}

#[test]
fn plugin_stays_while_an_entry_of_istio_names_it() {
    let node = Node::new();
    let istio = PRIMARY.replace("}]", "}, {\"type\": \"istio-cni\", \"ambient_enabled\": false}]");
    fs::write(node.primary(), &istio).unwrap();
    let agent = node.agent(&["--config-mode", "own"]);
    node.wait_until("it is installed", |node| node.is_ready() && node.has_plugin());
    drop(agent);
    let refused = node.run(&["uninstall", "--purge"]);
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("10-lab.conflist in ") && message.contains("hint: "), "{message}");
    assert!(node.has_plugin());
    assert_eq!(fs::read_to_string(node.primary()).unwrap(), istio);
}

#[test]
fn uninstall_removes_its_own_files_alone_and_says_what_it_found() {
    let node = Node::new();
    let run = node.0.path().join("run");
    fs::create_dir(&run).unwrap();
    fs::write(run.join("istio-cni-kubeconfig"), "").unwrap();
    drop(node.agent(&[]));
    let done = node.run(&["uninstall"]);
    let names = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["istio-cni-kubeconfig"]);
    assert!(done.status.success());
    let again = String::from_utf8(node.run(&["uninstall"]).stderr).unwrap();
    assert!(again.contains("net.d: no file has an entry of the plugin"), "{again}");
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

    /// Writes a file of the configuration in one step.
    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let new = self.file("new");
        fs::write(&new, text)?;
        fs::rename(new, path)
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
        command.env_clear();
        for (flag, value) in [
            ("--mounted-cni-net-dir", path("net.d")),
            ("--mounted-cni-bin-dir", path("plugins")),
            ("--mounted-cni-cache-dir", path("cache")),
            ("--cni-agent-run-dir", path("run")),
            ("--plugin", path("istio-cni")),
        ] {
            command.arg(flag).arg(value);
        }
        // Last, so that they override.
        command.args(args);
        command
    }

    fn agent(&self, args: &[&str]) -> Agent {
        let mut command = self.command(args);
        Agent(command.stderr(self.log_file()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts an agent in a mount namespace of its own, by a script with the folder of configurations as
    /// `$0` and the agent's command line as `$@`. `None` without user namespaces.
    fn agent_after(&self, script: &str) -> Option<Agent> {
        let own = ["--user", "--map-root-user", "--mount", "sh", "-c"];
        let can = Command::new("unshare").args(own).arg("true").status();
        let agent = self.command(&[]);
        let mut limited = Command::new("unshare");
        limited.args(own).args([script.as_ref(), self.conf().as_os_str(), agent.get_program()]);
        limited.args(agent.get_args()).env("PRIMARY", PRIMARY).stderr(self.log_file());
        can.is_ok_and(|status| status.success()).then(|| Agent(limited.spawn().unwrap()))
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

    fn has_plugin(&self) -> bool {
        self.plugins().join("istio-cni").exists()
    }

    fn has_temporary(&self, folder: &str) -> bool {
        let entries = fs::read_dir(self.0.path().join(folder)).unwrap().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with('.'))
    }

    /// True if this holds before the agent is ready.
    fn is_true_before_it_is_ready(&self, holds: fn(&Self) -> bool) -> bool {
        let deadline = Instant::now() + wait::TIMEOUT;
        while !self.is_ready() {
            if holds(self) {
                return true;
            }
            assert!(Instant::now() < deadline, "neither reached nor ready\n{}", self.log());
        }
        false
    }

    /// Plugins that a runtime calls, which reads drop-ins.
    fn called(&self) -> Vec<String> {
        let own = fs::read_to_string(self.own()).ok();
        let text = own.or_else(|| fs::read_to_string(self.primary()).ok()).unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        let mut plugins = list["plugins"].as_array().unwrap().clone();
        if let Ok(drop_in) = fs::read_to_string(self.file("lab/50-istio-cni.conf")) {
            plugins.push(serde_json::from_str(&drop_in).unwrap());
        }
        plugins.iter().map(|plugin| plugin["type"].as_str().unwrap().to_owned()).collect()
    }

    fn is_called(&self) -> bool {
        self.called().contains(&"istio-cni".to_owned())
    }

    fn is_in_one_piece(&self) {
        let called = self.called();
        assert_eq!(called[0], "bridge");
        assert!(
            called.len() <= 2 && called[1..].iter().all(|name| name == "istio-cni"),
            "{called:?}"
        );
        match fs::read_to_string(self.plugins().join("istio-cni")) {
            Ok(plugin) => assert_eq!(plugin, PLUGIN),
            Err(_) => assert_eq!(called.len(), 1, "a configuration without its plugin"),
        }
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
        let probe = || if holds(self) { Ok(()) } else { Err(self.log()) };
        wait::until(what, probe).unwrap();
    }
}

const PRIMARY: &str =
    "{\"cniVersion\": \"1.0.0\", \"name\": \"lab\",\n \"plugins\": [{\"type\": \"bridge\"}]}\n";
const PLUGIN: &str = "the plugin";
