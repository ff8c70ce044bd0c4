//! State of a pod as its kubelet reports it: phase, readiness, and the containers that fail.

use injector::kubernetes::pod::{CONTAINERS, INIT_CONTAINERS};
use serde_json::{Value, json};

use crate::printable::Printable;

/// State of a pod.
#[derive(Debug)]
pub(super) struct PodState {
    /// Phase, or `Terminating` for a pod that is deleted.
    phase: String,
    is_ready: bool,
    /// Cause of a phase or of a missing readiness; empty if none is known.
    cause: String,
    failing: Vec<FailingContainer>,
}

/// Container that keeps its pod from being ready.
#[derive(Debug)]
struct FailingContainer {
    name: String,
    is_init: bool,
    /// Reason of Kubernetes, such as `ImagePullBackOff`, or `NotReady` or `Running` of an init container.
    reason: String,
    /// Message of the container, or else of the kubelet.
    message: String,
    /// Exit code of the latest run.
    exit_code: Option<i64>,
    restarts: u64,
}

impl PodState {
    /// Returns the state of a pod; `None` if it has no status, as one in a file.
    pub(super) fn of_pod(pod: &Value) -> Option<Self> {
        let status = &pod["status"];
        let phase = status["phase"].as_str()?;
        let is_deleted = !pod["metadata"]["deletionTimestamp"].is_null();
        let condition = |kind: &str| {
            let conditions = status["conditions"].as_array();
            conditions.into_iter().flatten().find(|one| one["type"] == kind)
        };
        let is_ready = condition("Ready").is_some_and(|one| one["status"] == "True");
        let unmet = ["PodScheduled", "Ready"].map(|kind| {
            let unmet = condition(kind).filter(|one| one["status"] == "False");
            unmet.map(|one| text(&one["message"])).unwrap_or_default()
        });
        let [scheduled, ready] = unmet;
        let causes = [text(&status["reason"]), text(&status["message"]), scheduled, ready];
        let statuses = |list: &'static str, field: &str| {
            let statuses = status[field].as_array().into_iter().flatten();
            statuses.filter_map(move |one| FailingContainer::by_status(pod, list, one))
        };
        let failing = statuses(INIT_CONTAINERS, "initContainerStatuses")
            .chain(statuses(CONTAINERS, "containerStatuses"));
        Some(Self {
            phase: if is_deleted { "Terminating" } else { phase }.to_owned(),
            is_ready,
            cause: causes.into_iter().find(|cause| !cause.is_empty()).unwrap_or_default(),
            failing: failing.collect(),
        })
    }

    /// Returns the lines for people.
    pub(super) fn lines(&self) -> Vec<String> {
        let ready = match (self.phase.as_str(), self.is_ready) {
            ("Succeeded" | "Failed", _) => "",
            (_, true) => ", ready",
            (_, false) => ", not ready",
        };
        let cause = if self.is_ready { String::new() } else { after_colon(&self.cause) };
        let mut lines = vec![format!("Status: {}{ready}{cause}", Printable(&self.phase))];
        lines.extend(self.failing.iter().map(FailingContainer::line));
        lines
    }

    /// Returns the state for programs.
    pub(super) fn json(&self) -> Value {
        let failing = self.failing.iter().map(|one| {
            json!({
                "name": one.name,
                "init": one.is_init,
                "reason": one.reason,
                "message": one.message,
                "exitCode": one.exit_code,
                "restarts": one.restarts,
            })
        });
        json!({
            "phase": self.phase,
            "ready": self.is_ready,
            "cause": self.cause,
            "failing": failing.collect::<Value>(),
        })
    }
}

impl FailingContainer {
    /// Returns the container if it fails by its status.
    fn by_status(pod: &Value, list: &str, status: &Value) -> Option<Self> {
        let (state, last) = (&status["state"], &status["lastState"]["terminated"]);
        let is_init = list == INIT_CONTAINERS;
        let ends = is_init && !is_native(pod, &status["name"]);
        let (reason, message, ended) = if let Some(waiting) = state.get("waiting") {
            let reason = text(&waiting["reason"]);
            // An init container before it is what fails.
            if reason == "PodInitializing" {
                return None;
            }
            (reason, text(&waiting["message"]), last)
        } else if let Some(ended) = state.get("terminated") {
            if ended["exitCode"] == 0 {
                return None;
            }
            (text(&ended["reason"]), String::new(), ended)
        } else if state.get("running").is_none() || status["ready"] == true {
            return None;
        } else {
            let reason = if ends { "Running" } else { "NotReady" };
            (reason.to_owned(), String::new(), last)
        };
        let own = text(&ended["message"]);
        Some(Self {
            name: text(&status["name"]),
            is_init,
            reason,
            message: if own.is_empty() { message } else { own },
            exit_code: ended["exitCode"].as_i64(),
            restarts: status["restartCount"].as_u64().unwrap_or_default(),
        })
    }

    fn line(&self) -> String {
        let list = if self.is_init { "Init container" } else { "Container" };
        let (name, reason) = (Printable(&self.name), Printable(&self.reason));
        let code = self.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
        let restarts = match self.restarts {
            0 => String::new(),
            1 => ", 1 restart".to_owned(),
            several => format!(", {several} restarts"),
        };
        format!("{list} {name}: {reason}{code}{restarts}{}", after_colon(&self.message))
    }
}

/// True for an init container that keeps running.
fn is_native(pod: &Value, name: &Value) -> bool {
    let mut containers = pod["spec"][INIT_CONTAINERS].as_array().into_iter().flatten();
    containers.any(|one| one["name"] == *name && one["restartPolicy"] == "Always")
}

/// Returns a text on one line after a colon; nothing for an empty text.
fn after_colon(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { String::new() } else { format!(": {}", Printable(&lines.join("; "))) }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(status: &Value) -> Vec<String> {
        let pod = json!({
            "spec": {"initContainers": [{"name": "istio-init"},
                {"name": "istio-proxy", "restartPolicy": "Always"}]},
            "status": status,
        });
        PodState::of_pod(&pod).map(|state| state.lines()).unwrap_or_default()
    }

    fn condition(kind: &str, message: &str) -> Value {
        json!([{"type": kind, "status": "False", "message": message}])
    }

    #[test]
    fn pod_of_a_file_has_no_state() {
        assert_eq!(lines(&Value::Null), [""; 0]);
    }

    #[test]
    fn phase_comes_with_readiness_and_cause() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        for (status, expected) in [
            (json!({"phase": "Running", "conditions": ready}), "Status: Running, ready"),
            (json!({"phase": "Running"}), "Status: Running, not ready"),
            (json!({"phase": "Succeeded"}), "Status: Succeeded"),
            (
                json!({"phase": "Pending", "conditions": condition("PodScheduled", "no nodes")}),
                "Status: Pending, not ready: no nodes",
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Status: Failed: Evicted"),
        ] {
            assert_eq!(lines(&status), [expected]);
        }
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"phase": "Running"}});
        let state = PodState::of_pod(&deleted).unwrap();
        assert_eq!(state.lines(), ["Status: Terminating, not ready"]);
    }

    #[test]
    fn failing_containers_come_with_their_message() {
        let ended =
            json!({"terminated": {"reason": "Error", "exitCode": 1, "message": "first\nlast\n"}});
        let image = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        let back_off =
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}});
        let initializing = json!({"waiting": {"reason": "PodInitializing"}});
        let done = json!({"terminated": {"reason": "Completed", "exitCode": 0}});
        let running = json!({"running": {}});
        let init = "initContainerStatuses";
        for (list, name, status, expected) in [
            (init, "istio-init", json!({"state": ended}), "exit code 1: first; last"),
            (init, "istio-init", json!({"state": done}), ""),
            (init, "istio-init", json!({"state": running}), "Init container istio-init: Running"),
            (init, "istio-proxy", json!({"state": running}), "container istio-proxy: NotReady"),
            (init, "istio-proxy", json!({"state": running, "ready": true}), ""),
            ("containerStatuses", "app", json!({"state": initializing}), ""),
            (
                "containerStatuses",
                "app",
                json!({"state": image}),
                ": ImagePullBackOff: no such image",
            ),
            (
                "containerStatuses",
                "app",
                json!({"state": back_off, "lastState": ended, "restartCount": 3}),
                "Container app: CrashLoopBackOff, exit code 1, 3 restarts: first; last",
            ),
        ] {
            let mut status = status;
            status["name"] = name.into();
            let lines = lines(&json!({"phase": "Pending", list: [status]}));
            let found = lines.get(1).map_or("", String::as_str);
            assert!(
                found.ends_with(expected) && found.is_empty() == expected.is_empty(),
                "{lines:?}"
            );
        }
    }
}
