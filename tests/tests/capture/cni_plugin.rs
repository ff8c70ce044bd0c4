//! Capture by the CNI plugin, which the container runtime starts in the node's network namespace.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use e2e::netns::succeed;
use e2e::programs::Programs;
use e2e::skipped_tests;
use e2e::sockets::Transport::{Tcp, Udp};
use e2e::wait::until;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::flags::{APP, PROXY, check, owned_by};
use crate::pod::From::World;
use crate::pod::{Pod, own_program};
use crate::settings::Settings;

#[test]
fn plugin_leaves_what_the_init_container_leaves() {
    let pod = Pod::create();
    let clean = pod.dump();
    let dual = Settings::injected_dual;
    for settings in [
        Settings::injected(),
        dual(),
        dual().with('m', "TPROXY"),
        dual().with('m', "TPROXY").with('t', "1400").with('r', "140"),
        dual().with('x', "10.200.0.0/16,fd88::/64").with('q', "8500").with('o', "443,9080"),
        dual().with('i', "10.1.0.0/16,fd88::/64").with('b', "80,443").with('c', "net1"),
        Settings::injected().with('k', "net1").with_variable("INVALID_DROP", "true"),
        dual().with_switch("--redirect-dns").with_name_servers(&["203.0.113.7", "2001:db8::7"]),
        dual().with_switch("--redirect-dns").with_switch("--capture-all-dns"),
    ] {
        pod.init(&settings);
        let by_init = pod.dump();
        pod.init(&Settings::default().with_switch("--cleanup-only"));
        assert_eq!(pod.dump(), clean, "{settings:?}");
        add(&pod, &settings).unwrap();
        assert_eq!(pod.dump(), by_init, "{settings:?}");
        // Two chains may have the plugin, and a runtime may try again.
        add(&pod, &settings).unwrap();
        assert_eq!(pod.dump(), by_init, "{settings:?}");
        pod.init(&Settings::default().with_switch("--cleanup-only"));
    }
}

#[test]
fn plugin_captures_inbound_and_outbound() {
    let pod = Pod::create();
    add(&pod, &Settings::injected_dual()).unwrap();
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (World, Tcp, "[fd77::2]:80", "pod:15006 [fd77::2]:80"),
            (World, Tcp, "192.168.77.2:15021", "pod:15021 192.168.77.2:15021"),
            (World, Udp, "192.168.77.2:53", "pod:53 udp"),
            (APP, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
            (APP, Tcp, "[2001:db8::7]:443", "pod:15001 [2001:db8::7]:443"),
            (APP, Udp, "[2001:db8::7]:53", "world:53 udp"),
            (PROXY, Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
            (PROXY, Tcp, "[2001:db8::7]:80", "world:80 [2001:db8::7]:80"),
        ],
    );
}

/// A runtime attaches the loopback interface at the same time.
#[test]
fn plugin_captures_by_tproxy_although_loopback_is_down() {
    let pod = Pod::create();
    pod.namespace.ip("link set lo down").unwrap();
    add(&pod, &Settings::injected_dual().with('m', "TPROXY")).unwrap();
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (World, Tcp, "[fd77::2]:80", "pod:15006 [fd77::2]:80"),
            (APP, Tcp, "[2001:db8::7]:80", "pod:15001 [2001:db8::7]:80"),
            (owned_by(0, 1337), Tcp, "203.0.113.7:80", "world:80 203.0.113.7:80"),
        ],
    );
}

#[test]
fn result_of_the_plugin_before_is_the_result() {
    let pod = Pod::create();
    for previous in [
        r#"{"cniVersion":"1.0.0", "ips": [ {"address":"10.0.0.7/24"} ],"dns":{},"unknown":1.50}"#,
        r#"{"cniVersion":"1.0.0"}"#,
    ] {
        let mut config = config(&request(&Settings::injected())).to_string();
        config.insert_str(1, &format!("\"prevResult\":{previous},"));
        assert_eq!(call("ADD", &path(&pod), &config).unwrap(), previous);
    }
}

#[test]
fn check_finds_rules_that_are_gone() {
    let pod = Pod::create();
    let config = config(&request(&Settings::injected())).to_string();
    let differs = call("CHECK", &path(&pod), &config).unwrap_err();
    assert!(differs["msg"].as_str().unwrap().contains("the rules differ from the plan"));
    call("ADD", &path(&pod), &config).unwrap();
    assert_eq!(call("CHECK", &path(&pod), &config).unwrap(), "");
    for command in ["DEL", "GC", "STATUS"] {
        assert_eq!(call(command, Path::new(""), "").unwrap(), "", "{command}");
    }
    assert_eq!(call("CHECK", &path(&pod), &config).unwrap(), "");
}

/// The runtime's library finds the plugin by a configuration list, behind another plugin.
#[test]
fn reference_client_carries_out_every_operation() {
    let pod = Pod::create();
    let clean = pod.dump();
    let folder = TempDir::new().unwrap();
    let entry = json!({"type": "istio-cni", "capabilities": {ANNOTATIONS: true, "dns": true}});
    // Debian's plugins are older than the operations of 1.1.
    let chained = json!({"cniVersion": "1.0.0", "plugins": [{"type": "loopback"}, entry]});
    let alone = json!({"cniVersion": "1.1.0", "plugins": [entry]});
    for (name, mut list) in [("chained", chained), ("alone", alone)] {
        list["name"] = name.into();
        fs::write(folder.path().join(name).with_extension("conflist"), list.to_string()).unwrap();
    }
    let call = |operation: &str| {
        let list = if ["gc", "status"].contains(&operation) { "alone" } else { "chained" };
        call_by_client(&folder, &pod, operation, list)
    };
    call("status").unwrap();
    let result: Value = serde_json::from_str(&call("add").unwrap()).unwrap();
    assert_eq!(result["interfaces"][0]["name"], "lo", "{result}");
    check(
        &pod,
        &[
            (World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80"),
            (APP, Tcp, "203.0.113.7:80", "pod:15001 203.0.113.7:80"),
        ],
    );
    call("check").unwrap();
    pod.init(&Settings::default().with_switch("--cleanup-only"));
    assert_eq!(pod.dump(), clean);
    let differs = call("check").unwrap_err();
    assert!(differs.contains("the rules differ from the plan"), "{differs}");
    call("gc").unwrap();
    call("del").unwrap();
}

/// libcni 1.3 appends the plugins of a folder with the network's name. A list may have no version.
#[test]
fn reference_client_calls_the_plugin_by_a_drop_in() {
    for version in [json!("1.0.0"), json!("0.2.0"), Value::Null] {
        let pod = Pod::create();
        let folder = TempDir::new().unwrap();
        let mut list =
            json!({"cniVersion": version, "name": "lab", "plugins": [{"type": "loopback"}]});
        if version.is_null() {
            list.as_object_mut().unwrap().remove("cniVersion");
        }
        fs::write(folder.path().join("10-lab.conflist"), list.to_string()).unwrap();
        fs::create_dir(folder.path().join("lab")).unwrap();
        let entry = json!({"type": "istio-cni", "capabilities": {ANNOTATIONS: true, "dns": true}});
        fs::write(folder.path().join("lab/50-istio-cni.conf"), entry.to_string()).unwrap();
        call_by_client(&folder, &pod, "add", "lab").unwrap();
        check(&pod, &[(World, Tcp, "192.168.77.2:80", "pod:15006 192.168.77.2:80")]);
        call_by_client(&folder, &pod, "del", "lab").unwrap();
    }
}

#[test]
fn refused_call_names_the_cause_and_programs_nothing() {
    let pod = Pod::create();
    let clean = pod.dump();
    let with = |annotation: &str| config(&annotation.into()).to_string();
    let good = config(&request(&Settings::injected())).to_string();
    let (namespace, file) = (path(&pod), tempfile::NamedTempFile::new().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    succeed(Command::new("mkfifo").arg(&pipe), "").unwrap();
    for (namespace, config, code, cause) in [
        (&*namespace, with("["), 100, "pod shop/web: annotation sidecar.outrigger.io/capture: "),
        (&namespace, with(r#"{"args":["-p","15001; flush ruleset"]}"#), 100, "--envoy-port: "),
        (
            &namespace,
            with(r#"{"args":["--allow-host-network"]}"#),
            100,
            "is not allowed in a capture",
        ),
        (&namespace, with(r#"{"args":["-u","root"]}"#), 100, "--proxy-uid: `root`"),
        (&namespace, "{".to_owned(), 6, "the network configuration on standard input is invalid"),
        (&namespace, String::new(), 6, "the network configuration on standard input is invalid"),
        (Path::new("/proc/self/ns/net"), good.clone(), 8, "is the network namespace of the node"),
        (Path::new("/proc/self/ns/uts"), good.clone(), 8, "CNI_NETNS /proc/self/ns/uts: "),
        (file.path(), good.clone(), 8, "is not a namespace"),
        (&pipe, good.clone(), 8, "is not a namespace"),
        (Path::new("/absent"), good, 8, "CNI_NETNS /absent: "),
    ] {
        let refused = call("ADD", namespace, &config).unwrap_err();
        assert_eq!(refused["code"], code, "{refused}");
        assert!(refused["msg"].as_str().unwrap().contains(cause), "{refused}: expected {cause}");
    }
    assert_eq!(pod.dump(), clean);
}

#[test]
fn capability_that_the_runtime_lacks_is_named() {
    let pod = Pod::create();
    let clean = pod.dump();
    let config = config(&request(&Settings::injected())).to_string();
    let folder = tempfile::tempdir().unwrap();
    for (capability, hint) in [
        ("net_admin", "the container runtime, which needs NET_ADMIN and SYS_ADMIN"),
        ("sys_admin", "entering it needs CAP_SYS_ADMIN"),
    ] {
        let limited = folder.path().join(capability);
        let plugin = own_program("istio-cni");
        let script =
            format!("#!/bin/sh\nexec setpriv --bounding-set=-{capability} {}\n", plugin.display());
        fs::write(&limited, script).unwrap();
        fs::set_permissions(&limited, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = call_program(&limited, "ADD", &path(&pod), &config).unwrap_err();
        assert!(refused["details"].as_str().unwrap().ends_with(hint), "{refused}");
    }
    assert_eq!(pod.dump(), clean);
}

/// A call that hangs must not hold up the other pods of its node.
#[test]
fn call_without_a_result_ends_with_an_error_that_names_the_pod() {
    let mut plugin = Command::new(own_program("istio-cni"));
    plugin.env_clear().env("CNI_COMMAND", "ADD").env("CNI_NETNS", "/absent");
    plugin.env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web");
    let mut plugin = plugin.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Its input never comes.
    let input = plugin.stdin.take();
    let output = plugin.wait_with_output().unwrap();
    drop(input);
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &error["code"]), (Some(1), &json!(11)), "{error}");
    assert!(
        error["msg"].as_str().unwrap().starts_with("pod shop/web: no result within"),
        "{error}"
    );
}

/// A runtime takes an empty result for a failed call only if the exit code says so.
#[test]
fn result_that_cannot_be_written_is_a_failed_call() {
    let mut plugin = Command::new(own_program("istio-cni"));
    plugin.env_clear().env("CNI_COMMAND", "VERSION").stdin(Stdio::null());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(plugin.stdout(full).status().unwrap().code(), Some(1));
}

#[test]
fn pods_without_a_sidecar_are_left_as_they_are() {
    let pod = Pod::create();
    let clean = pod.dump();
    let mut excluded = config(&request(&Settings::injected()));
    excluded["exclude_namespaces"] = json!(["shop"]);
    let mut plain = config(&Value::Null);
    plain["runtimeConfig"][ANNOTATIONS] = json!({"a": "b"});
    let mut own = config(&Value::Null);
    own["runtimeConfig"][ANNOTATIONS] =
        json!({"sidecar.istio.io/status": r#"{"initContainers":["istio-init"]}"#});
    for config in [excluded, plain, own] {
        call("ADD", &path(&pod), &config.to_string()).unwrap();
    }
    assert_eq!(pod.dump(), clean);
}

/// An agent of a new version replaces the plugin while runtimes start it.
#[test]
fn plugin_can_be_replaced_while_it_is_called() {
    let pod = Pod::create();
    let config = config(&request(&Settings::injected())).to_string();
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("istio-cni");
    fs::copy(own_program("istio-cni"), &program).unwrap();
    let script = "while cp \"$1\" new && mv new istio-cni; do :; done";
    let mut replacing = Command::new("sh");
    replacing.args(["-c", script, "sh"]).arg(own_program("istio-cni")).current_dir(folder.path());
    let mut replacing = replacing.spawn().unwrap();
    for _ in 0..100 {
        call_program(&program, "ADD", &path(&pod), &config).unwrap();
    }
    assert!(replacing.try_wait().unwrap().is_none(), "the plugin was not replaced");
    replacing.kill().unwrap();
    replacing.wait().unwrap();
}

/// A runtime kills a plugin whose time is over, and calls it again.
#[test]
fn killed_plugin_leaves_all_rules_or_none() {
    let pod = Pod::create();
    let none = pod.ruleset();
    let settings = Settings::injected_dual().with('m', "TPROXY");
    add(&pod, &settings).unwrap();
    let (all, whole) = (pod.ruleset(), pod.dump());
    let config = config(&request(&settings)).to_string();
    let program = own_program("istio-cni");
    let (mut before, mut after) = (0, 0);
    for round in 0..100 {
        pod.init(&Settings::default().with_switch("--cleanup-only"));
        let mut plugin = started(&program, "ADD", &path(&pod), &config);
        thread::sleep(Duration::from_micros(200) * round);
        plugin.kill().unwrap();
        plugin.wait().unwrap();
        match pod.ruleset() {
            rules if rules == none => before += 1,
            rules if rules == all => after += 1,
            rules => panic!("round {round}: neither all rules nor none:\n{rules}"),
        }
        add(&pod, &settings).unwrap();
        assert_eq!(pod.dump(), whole, "round {round}");
    }
    assert!(before > 0 && after > 0, "killed {before} times before, {after} times after");
}

/// The network namespace of a pod with `hostUsers: false` belongs to a user namespace, in which user 1337 is another
/// one than on the node.
#[test]
fn user_1337_of_a_user_namespace_is_the_proxy() {
    if fs::read_to_string("/proc/self/uid_map").unwrap().split_whitespace().nth(2) != Some(WHOLE) {
        return skipped_tests::record("a pod's user namespace", "not root of the machine").unwrap();
    }
    let pod = UserNamespace::create();
    pod.run(0, "ip link set lo up; ip link add eth0 type veth peer name net1; ip link set eth0 up");
    pod.run(0, "ip link set net1 up; ip address add 192.0.2.2/24 dev eth0");
    let config = config(&request(&Settings::injected())).to_string();
    call("ADD", &pod.file("net"), &config).unwrap();
    let mut proxy =
        pod.command(1337, "exec busybox nc -ll -p 15001 -e echo captured").spawn().unwrap();
    let connect = "exec 3<>/dev/tcp/192.0.2.99/80 && cat <&3";
    let captured = || {
        let answer = pod.run(1000, &format!("timeout 5 bash -c '{connect}' || true"));
        if answer == "captured\n" { Ok(()) } else { Err(answer) }
    };
    until("the proxy listens", captured).unwrap();
    // Nobody has the address: a connection of the proxy itself leaves the pod and finds no one.
    assert_eq!(pod.run(1337, &format!("timeout 1 bash -c '{connect}' 2>/dev/null || true")), "");
    proxy.kill().unwrap();
    proxy.wait().unwrap();
}

/// A user namespace with a network namespace of its own, as those of a pod with `hostUsers: false`.
struct UserNamespace(Child);

impl UserNamespace {
    fn create() -> Self {
        let mut holder = Command::new("unshare");
        holder.args(["--user", "--net", "sh", "-c", "echo made; read line; exec sleep 600"]);
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut made = [0; 5];
        holder.stdout.as_mut().unwrap().read_exact(&mut made).unwrap();
        let namespace = Self(holder);
        for map in ["uid_map", "gid_map"] {
            fs::write(format!("/proc/{}/{map}", namespace.0.id()), "0 100000 65536\n").unwrap();
        }
        namespace
    }

    fn file(&self, kind: &str) -> PathBuf {
        format!("/proc/{}/ns/{kind}", self.0.id()).into()
    }

    fn command(&self, user: u32, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--user", "--net", "--target", &self.0.id().to_string()]);
        command.args([format!("--setuid={user}"), format!("--setgid={user}")]);
        command.args(["sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn run(&self, user: u32, script: &str) -> String {
        let output = self.command(user, script).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for UserNamespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls the plugins of a list by the client of libcni. Returns its output, or its messages.
fn call_by_client(
    folder: &TempDir,
    pod: &Pod,
    operation: &str,
    list: &str,
) -> Result<String, String> {
    let program = folder.path().join("istio-cni");
    if !program.exists() {
        fs::copy(own_program("istio-cni"), program).unwrap();
    }
    let annotations = config(&request(&Settings::injected()))["runtimeConfig"].take();
    let mut client = Command::new(Programs::find().unwrap().cnitool().unwrap());
    client.args([operation, list]).arg(path(pod)).env_clear();
    client.env("NETCONFPATH", folder.path()).env("CNI_IFNAME", "lo");
    client.env("CNI_PATH", format!("{}:/usr/lib/cni", folder.path().display()));
    client.env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web");
    let output = client.env("CAP_ARGS", annotations.to_string()).output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap()).ok_or(messages)
}

/// Adds the pod to the network, as a runtime does.
fn add(pod: &Pod, settings: &Settings) -> Result<String, Value> {
    let mut config = config(&request(settings));
    if let Some(servers) = settings.name_servers() {
        config["runtimeConfig"]["dns"] = json!({"Servers": servers});
    }
    call("ADD", &path(pod), &config.to_string())
}

/// Returns the capture request with the settings. A pod cannot choose the backend.
fn request(settings: &Settings) -> Value {
    let mut args = settings.command_line();
    args.retain(|word| word != "--backend=nftables");
    json!({"args": args, "env": settings.environment()}).to_string().into()
}

/// Returns the network configuration of a pod with a capture request.
fn config(request: &Value) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": "k8s",
        "type": "istio-cni",
        "capabilities": {ANNOTATIONS: true, "dns": true},
        "runtimeConfig": {ANNOTATIONS: {
            "sidecar.istio.io/status": r#"{"initContainers":["istio-validation"]}"#,
            "sidecar.outrigger.io/capture": request,
        }},
    })
}

fn path(pod: &Pod) -> PathBuf {
    pod.namespace.path()
}

/// Calls the plugin. Returns its result, or its error.
fn call(command: &str, namespace: &Path, config: &str) -> Result<String, Value> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    call_program(PROGRAM.get_or_init(|| own_program("istio-cni")), command, namespace, config)
}

fn call_program(
    program: &Path,
    command: &str,
    namespace: &Path,
    config: &str,
) -> Result<String, Value> {
    let output = started(program, command, namespace, config).wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "all is on standard output");
    let text = String::from_utf8(output.stdout).unwrap();
    if output.status.success() { Ok(text) } else { Err(serde_json::from_str(&text).unwrap()) }
}

/// Starts the plugin, and writes its input.
fn started(program: &Path, command: &str, namespace: &Path, config: &str) -> Child {
    let mut plugin = Command::new(program);
    plugin.env_clear().env("CNI_COMMAND", command).env("CNI_NETNS", namespace);
    plugin.env("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u");
    plugin.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut plugin = plugin.spawn().unwrap();
    // A plugin that does not read its input may end before the input is written.
    let _ = plugin.stdin.take().unwrap().write_all(config.as_bytes());
    plugin
}

/// Users in the map of the machine's own user namespace.
const WHOLE: &str = "4294967295";
const ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";
