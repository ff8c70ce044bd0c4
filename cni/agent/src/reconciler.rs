//! Reconciler of the pods whose sandbox was made without the plugin.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::attachment::Attachment;
use crate::metrics::{Metrics, RepairResult, RepairType};
#[cfg(test)]
use crate::node_api::OVERWRITTEN;
use crate::node_api::{NOT_READY, NodeApi, PodEvent};
use crate::node_pod::{NodePod, Validation};
use crate::node_pods::NodePods;
use crate::repair::{Capture, RepairError, attachments, repair};

/// Action for a pod without capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairMode {
    /// Program the rules in its namespace.
    Repair,
    /// Delete it, so that its controller creates another one.
    Delete,
    /// Label it.
    Label {
        /// Key of the label.
        key: String,
        /// Value of the label.
        value: String,
    },
    /// Nothing.
    Off,
}

/// Reason for a pass over the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Pods may have got a sandbox: pods that wait for their rules are looked at.
    NewSandbox,
    /// The configuration was not in force: all pods are looked at.
    ConfigurationRestored,
}

/// Reconciler of the pods without capture.
#[derive(Debug)]
pub struct Reconciler {
    /// Folder of libcni's cache.
    pub cache: PathBuf,
    /// Action for a pod without capture.
    pub mode: RepairMode,
    /// Pods of the node.
    pub pods: Arc<NodePods>,
    /// API server.
    pub api: NodeApi,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// The last reported state by UID: the same one is reported once.
    pub reported: BTreeMap<String, String>,
    /// File that exists while plugin and configuration are in place, if the taint of the node has to
    /// be removed then.
    pub untaint: Option<PathBuf>,
}

impl Reconciler {
    /// Reconciles after each trigger and each change of the pods, for as long as the program runs.
    pub async fn run(mut self, mut triggers: mpsc::UnboundedReceiver<Trigger>) {
        let mut everything = true;
        let mut waiting = false;
        loop {
            tokio::select! {
                () = self.pods.changed.notified() => {}
                trigger = triggers.recv() => match trigger {
                    Some(trigger) => everything |= trigger == Trigger::ConfigurationRestored,
                    None => return,
                },
                () = tokio::time::sleep(AGAIN), if waiting => {}
            }
            while let Ok(trigger) = triggers.try_recv() {
                everything |= trigger == Trigger::ConfigurationRestored;
            }
            if !self.pods.is_complete() {
                continue;
            }
            let pods = self.due(everything);
            let attachments =
                if pods.is_empty() { Some(Arc::default()) } else { self.attachments().await };
            let Some(attachments) = attachments else {
                waiting = true;
                continue;
            };
            (everything, waiting) = (false, self.reconcile(pods, &attachments).await);
            waiting |= self.untaint().await;
        }
    }

    /// Removes the taint of the node, now that its pods were looked at. True if this has to be tried
    /// again.
    async fn untaint(&mut self) -> bool {
        let Some(ready) = &self.untaint else { return false };
        if !ready.exists() {
            return true;
        }
        match self.api.remove_taint().await {
            Ok(true) => tracing::info!("taint {NOT_READY} of the node is removed"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!("taint {NOT_READY} of the node is not removed: {error}");
                return true;
            }
        }
        self.untaint = None;
        false
    }

    /// Returns the pods that wait for their rules, or all that the plugin captures.
    fn due(&mut self, everything: bool) -> Vec<NodePod> {
        let mut pods = self.pods.captured();
        self.reported.retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid));
        pods.retain(|pod| pod.validation != Validation::Passed || everything && pod.is_requested);
        pods
    }

    /// Looks at pods. True if some have to be looked at again without a trigger.
    async fn reconcile(&mut self, pods: Vec<NodePod>, attachments: &Arc<Vec<Attachment>>) -> bool {
        let mut again = false;
        for pod in pods {
            again |= match &self.mode {
                RepairMode::Off => false,
                RepairMode::Repair => self.repair(pod, attachments.clone()).await,
                RepairMode::Delete | RepairMode::Label { .. } => self.give_up(&pod).await,
            };
        }
        again
    }

    /// Reads the attachments of all pods, if rules are programmed. `None` after an error.
    async fn attachments(&self) -> Option<Arc<Vec<Attachment>>> {
        if self.mode != RepairMode::Repair {
            return Some(Arc::default());
        }
        let cache = self.cache.clone();
        let read = tokio::task::spawn_blocking(move || attachments(&cache)).await;
        match read.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(attachments) => Some(Arc::new(attachments)),
            Err(error) => {
                tracing::warn!("--mounted-cni-cache-dir {}: {error}", self.cache.display());
                None
            }
        }
    }

    /// Programs missing rules. True if the pod has to be looked at again.
    async fn repair(&mut self, pod: NodePod, attachments: Arc<Vec<Attachment>>) -> bool {
        let attempted = pod.clone();
        let attempt = tokio::task::spawn_blocking(move || repair(&attachments, &attempted)).await;
        let attempt = attempt.unwrap_or_else(|error| Err(RepairError::Thread(error.to_string())));
        match attempt {
            // Its sandbox is being made, and those of earlier ones may be known still. After a failed
            // validation it was made, so this is an error.
            Err(RepairError::NoSandbox | RepairError::OtherPod(_))
                if pod.validation != Validation::Failed =>
            {
                true
            }
            Ok(Capture::InForce) => {
                self.reported.remove(&pod.uid);
                false
            }
            Ok(Capture::Repaired) => {
                self.metrics.count_repair(RepairType::repair, RepairResult::success);
                let note =
                    "its sandbox was made without the CNI plugin; its traffic is captured now";
                self.report(&pod, PodEvent::normal(REPAIRED, note));
                false
            }
            Ok(Capture::MissingWhileRunning) => {
                let note = "it runs without capture of its traffic; hint: delete it, so that its \
                            controller creates another one";
                if self.report(&pod, PodEvent::warning(MISSING, note)) {
                    self.metrics.count_missing();
                }
                false
            }
            Err(error) => {
                self.metrics.count_repair(RepairType::repair, RepairResult::fail);
                let note = format!("its traffic is not captured: {error}");
                self.report(&pod, PodEvent::warning(NOT_REPAIRED, note));
                true
            }
        }
    }

    /// Deletes or labels a pod whose validation failed. True if the pod has to be looked at again.
    async fn give_up(&mut self, pod: &NodePod) -> bool {
        if pod.validation != Validation::Failed || self.reported.contains_key(&pod.uid) {
            return false;
        }
        let (r#type, reason, done) = match &self.mode {
            RepairMode::Label { key, value } => {
                (RepairType::label, LABELLED, self.api.label(pod, key, value).await)
            }
            _ => (RepairType::delete, DELETED, self.api.delete(pod).await),
        };
        let (result, event) = match &done {
            Ok(()) => {
                let note = "its sandbox was made without the CNI plugin";
                (RepairResult::success, PodEvent::warning(reason, note))
            }
            Err(error) => {
                (RepairResult::fail, PodEvent::warning(reason, format!("this failed: {error}")))
            }
        };
        self.metrics.count_repair(r#type, result);
        self.report(pod, event);
        if done.is_err() {
            self.reported.remove(&pod.uid);
        }
        done.is_err()
    }

    /// Logs and records an Event, unless the last one about the pod was the same. True if it was not.
    ///
    /// No pod waits for an Event: the API server may not answer.
    fn report(&mut self, pod: &NodePod, event: PodEvent) -> bool {
        let text = format!("{}: {}", event.reason, event.note);
        if self.reported.get(&pod.uid) == Some(&text) {
            return false;
        }
        tracing::info!("pod {}: {text}", pod.identity);
        self.reported.insert(pod.uid.clone(), text);
        let (api, pod) = (self.api.clone(), pod.clone());
        tokio::spawn(async move { api.record(&pod, &event).await });
        true
    }
}

const REPAIRED: &str = "CaptureRepaired";
const MISSING: &str = "CaptureMissing";
const NOT_REPAIRED: &str = "CaptureNotRepaired";
const DELETED: &str = "DeleteBrokenPod";
const LABELLED: &str = "LabelBrokenPod";

/// Events with their object and meaning, for the reference page.
#[cfg(test)]
pub(crate) const EVENTS: [(&str, &str, &str); 6] = [
    (REPAIRED, "Pod", "Its sandbox was made without the plugin; its rules are in force now"),
    (NOT_REPAIRED, "Pod", "The same, and the rules cannot be programmed"),
    (MISSING, "Pod", "Its application runs without capture"),
    (DELETED, "Pod", "`istio-validation` found no rules, and the agent deletes such pods"),
    (LABELLED, "Pod", "`istio-validation` found no rules, and the agent labels such pods"),
    (OVERWRITTEN, "Node", "Another program removes the plugin's entry again and again"),
];

/// Interval between attempts for pods whose sandbox is not known yet.
const AGAIN: Duration = Duration::from_secs(1);
