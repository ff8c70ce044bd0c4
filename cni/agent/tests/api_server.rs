//! The agent beside an API server, with the rights of its manifests: answers about pods, pods whose validation
//! failed, and pods of other nodes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use cni::answer::CniError;
use cni::pod::PodIdentity;
use cni::question::{AskError, ask};
use e2e::api_servers::ApiServers;
use e2e::programs::{Programs, repository};
use e2e::wait;
use rustix::process::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

#[test]
fn pods_of_other_injectors_are_answered_and_broken_ones_deleted_or_labelled() {
    let servers = ApiServers::start(&Programs::find().unwrap(), 1).unwrap();
    let kubectl = servers.kubectl();
    let manifests = repository().join("manifests/cni").display().to_string();
    kubectl.must(["apply", "--server-side", "--kustomize", &manifests]).unwrap();
    let right = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "repair"}, "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
            {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
            // kubectl reads it before a patch.
            {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get"]}]});
    create(&servers, &right);
    kubectl
        .must([
            "create",
            "clusterrolebinding",
            "repair",
            "--clusterrole=repair",
            "--serviceaccount=istio-cni:istio-cni",
        ])
        .unwrap();
    for node in ["lab", "other"] {
        let taints = ["cni.istio.io/not-ready", "example.com/other"];
        let taints = taints.map(|key| json!({"key": key, "effect": "NoSchedule"}));
        create(
            &servers,
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node},
            "spec": {"taints": taints}}),
        );
    }
    let token = token(&servers, &["--bound-object-kind=Node", "--bound-object-name=lab"]);
    nothing_of_other_nodes_can_be_changed(&servers, token.clone());
    for mode in ["delete", "label"] {
        for name in ["broken", "waiting", "plain"] {
            create(&servers, &pod(&format!("{name}-{mode}"), name != "plain"));
        }
        for (name, ports) in [("annotated", "80"), ("invalid", "many")] {
            let mut pod = pod(&format!("{name}-{mode}"), false);
            pod["metadata"]["annotations"] = json!({"sidecar.istio.io/status": "{}",
                "traffic.sidecar.istio.io/includeInboundPorts": ports});
            let proxy = json!({"name": "istio-proxy", "image": "p", "args": ["proxy", "sidecar"]});
            pod["spec"]["containers"].as_array_mut().unwrap().push(proxy);
            create(&servers, &pod);
        }
        let status = json!({"status": {"initContainerStatuses": [{"name": "istio-validation", "image": "i",
            "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 126}}}]}});
        let broken = format!("broken-{mode}");
        kubectl
            .must(["patch", "pod", &broken, "--subresource=status", "--patch", &status.to_string()])
            .unwrap();
        let run = Run::start(&token, mode);
        run.answers(mode);
        wait::until("the broken pod is given up", || {
            let pod = get(&servers, &broken)?;
            let is_given_up = match mode {
                "delete" => pod.is_none_or(|pod| !pod["metadata"]["deletionTimestamp"].is_null()),
                _ => {
                    pod.context("it is gone")?["metadata"]["labels"]["cni.istio.io/uninitialized"]
                        == "true"
                }
            };
            ensure!(is_given_up, "not yet");
            let events = kubectl.must([
                "get",
                "events",
                "--output=jsonpath={.items[*].reason}",
                "--field-selector",
                &format!("involvedObject.name={broken}"),
            ])?;
            let reason = if mode == "delete" { "DeleteBrokenPod" } else { "LabelBrokenPod" };
            ensure!(events == reason, "{events:?}");
            Ok(())
        })
        .unwrap();
        wait::until("the taint of the node is removed", || {
            let keys = "jsonpath={.spec.taints[*].key}";
            let of = |node| kubectl.must(["get", "node", node, "--output", keys]);
            let (own, other) = (of("lab")?, of("other")?);
            let (removed, kept) = ("cni.istio.io/not-ready", "example.com/other");
            ensure!(!own.contains(removed) && own.contains(kept), "{own}");
            ensure!(other.contains(removed), "{other}");
            Ok(())
        })
        .unwrap();
        let waiting = get(&servers, &format!("waiting-{mode}")).unwrap().unwrap();
        assert_eq!(waiting["metadata"]["deletionTimestamp"], Value::Null);
        assert_eq!(waiting["metadata"]["labels"], Value::Null);
    }
}

/// The token of an agent that was stolen from its node.
fn nothing_of_other_nodes_can_be_changed(servers: &ApiServers, kubeconfig: PathBuf) {
    let thief = servers.kubectl().for_kubeconfig(kubeconfig);
    let mut far = pod("far", true);
    far["spec"]["nodeName"] = "other".into();
    create(servers, &far);
    create(servers, &pod("near", true));
    let label = |pod: &str, value: u32| {
        let value = format!(r#"--patch={{"metadata":{{"labels":{{"round":"{value}"}}}}}}"#);
        let command = ["patch", "pod", pod, "--subresource=status", "--type=merge", &value];
        command.map(str::to_owned)
    };
    let delete = |pod| ["delete", "pod", pod, "--wait=false", "--grace-period=0", "--force"];
    let event = |instance: &str, name: &str| {
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name,
            "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal",
            "action": "Capture", "reason": "CaptureRepaired", "note": "repaired",
            "reportingController": "outrigger.io/install-cni", "reportingInstance": instance,
            "regarding": {"kind": "Pod", "namespace": "default", "name": "far"}})
        .to_string()
    };
    let record = ["create", "--filename=-"];
    // Policies are in force a moment after they are written. A change that changes nothing is allowed.
    let mut rounds = 0..;
    wait::until("the policy is in force", || {
        let denied = thief.run(label("far", rounds.next().unwrap_or_default()))?;
        let expected = "the agent of node lab may not change a pod of another node";
        ensure!(denied.stderr.contains(expected), "{}", denied.stderr);
        Ok(())
    })
    .unwrap();
    let denied = thief.run(delete("far")).unwrap();
    assert!(denied.stderr.contains("a pod of another node"), "{}", denied.stderr);
    let taints = r#"--patch={"spec":{"taints":[]}}"#;
    let denied = thief.run(["patch", "node", "other", "--type=merge", taints]).unwrap();
    assert!(denied.stderr.contains("may not change another node"), "{}", denied.stderr);
    let denied = thief.run_with_input(record, &event("other", "far")).unwrap();
    assert!(denied.stderr.contains("must have the reporting instance lab"), "{}", denied.stderr);
    thief.must_with_input(record, &event("lab", "near")).unwrap();
    thief.must(label("near", 0)).unwrap();
    thief.must(delete("near")).unwrap();
    assert!(get(servers, "far").unwrap().is_some());
    let unbound = servers.kubectl().for_kubeconfig(token(servers, &[]));
    let denied = unbound.run(delete("far")).unwrap();
    assert!(denied.stderr.contains("the token of the agent names no node"), "{}", denied.stderr);
    let policy = ["get", "validatingadmissionpolicy", "istio-cni-node", "--output"];
    let warnings = [&policy[..], &["jsonpath={.status.typeChecking.expressionWarnings}"]].concat();
    assert_eq!(servers.kubectl().must(warnings).unwrap(), "");
}

/// Returns a kubeconfig with a token of the agent's account.
fn token(servers: &ApiServers, flags: &[&str]) -> PathBuf {
    let create = ["create", "token", "istio-cni", "--namespace=istio-cni"];
    let token = servers.kubectl().must([&create[..], flags].concat()).unwrap();
    servers.kubeconfig(0, &format!("istio-cni-{}", flags.len()), token.trim()).unwrap()
}

fn create(servers: &ApiServers, object: &Value) {
    servers.kubectl().must_with_input(["create", "--filename=-"], &object.to_string()).unwrap();
}

fn get(servers: &ApiServers, pod: &str) -> Result<Option<Value>> {
    let text =
        servers.kubectl().must(["get", "pod", pod, "--ignore-not-found", "--output=json"])?;
    Ok(if text.is_empty() { None } else { Some(serde_json::from_str(&text)?) })
}

/// A pod of the node. With a sidecar, it is as Istio's injector makes it: without a capture request.
fn pod(name: &str, has_sidecar: bool) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": "lab", "containers": [{"name": "app", "image": "app"}]}});
    if has_sidecar {
        pod["metadata"]["annotations"] = json!({"sidecar.istio.io/status": "{}"});
        pod["spec"]["initContainers"] = json!([{"name": "istio-validation", "image": "i",
            "args": ["istio-iptables", "-p", "15001", "--run-validation", "--skip-rule-apply"]}]);
    }
    pod
}

/// A running agent, with the token of its service account.
struct Run {
    folder: TempDir,
    agent: Child,
}

impl Run {
    fn start(kubeconfig: &Path, mode: &str) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["net.d", "bin"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("istio-cni"), "the plugin").unwrap();
        let network = r#"{"cniVersion":"1.0.0","name":"lab","plugins":[{"type":"bridge"}]}"#;
        fs::write(folder.path().join("net.d/10-lab.conflist"), network).unwrap();
        let mut agent = Command::new(env!("CARGO_BIN_EXE_install-cni"));
        agent.env_clear().arg("--kubeconfig").arg(kubeconfig).args(["--node-name", "lab"]);
        agent.args(["--repair-repair-pods=false", &format!("--repair-{mode}-pods")]);
        agent.arg("--untaint-node");
        for (flag, name) in [
            ("--mounted-cni-net-dir", "net.d"),
            ("--mounted-cni-bin-dir", "bin"),
            ("--mounted-cni-cache-dir", "cache"),
            ("--cni-agent-run-dir", "run"),
            ("--plugin", "istio-cni"),
        ] {
            agent.arg(flag).arg(folder.path().join(name));
        }
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let agent = agent.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Self { folder, agent }
    }

    fn run_dir(&self) -> &Path {
        self.folder.path()
    }

    /// The agent answers root alone.
    fn answers(&self, mode: &str) {
        let question = |name: &str| {
            let pod = PodIdentity {
                namespace: "default".into(),
                name: format!("{name}-{mode}"),
                uid: String::new(),
            };
            ask(&self.run_dir().join("run"), &pod)
        };
        if !geteuid().is_root() {
            wait::until("a question is rejected", || match question("waiting") {
                Err(AskError::Undecided(error)) if error.message.contains("EOF") => Ok(()),
                answer => Err(format!("{answer:?}")),
            })
            .unwrap();
            return;
        }
        wait::until("a pod is known", || question("waiting").map_err(CniError::from)).unwrap();
        let request = question("waiting").unwrap().unwrap();
        assert_eq!(request.args[..3], ["istio-iptables", "-p", "15001"]);
        assert_eq!(question("plain").unwrap(), None);
        let annotated = question("annotated").unwrap().unwrap();
        assert!(annotated.args.join(" ").contains(" -b 80 "), "{:?}", annotated.args);
        let Err(AskError::Rejected(invalid)) = question("invalid") else { panic!("not rejected") };
        let named = "annotation traffic.sidecar.istio.io/includeInboundPorts: ";
        assert!(invalid.message.contains(named), "{invalid}");
        let Err(AskError::Undecided(unknown)) = question("absent") else { panic!("decided") };
        assert!(unknown.message.contains("pods \"absent-"), "{unknown}");
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
    }
}
