//! Reports on checked pods.

use anyhow::Context;
use documents::yaml;
use injector::inject::reinject::status::InjectionStatus;
use injector::kubernetes::workload::Workload;
use injector::report::explanation::{Explanation, injecting_entries};
use serde_json::{Value, json};

use super::target::CheckedPod;
use crate::finding::Title;
use crate::table::table;
use crate::unified_diff::unified_diff;

/// A checked pod with every webhook's decision.
#[derive(Debug)]
pub(super) struct CheckReport {
    pub(super) checked: CheckedPod,
    pub(super) namespace_labels: Value,
    pub(super) webhooks: Vec<Explanation>,
}

impl CheckReport {
    /// Returns the webhooks with their entries, and the content that would be injected.
    ///
    /// `titled` adds the pod to a report that is one of several.
    pub(super) fn table(&self, titled: bool) -> String {
        let mut text =
            if titled { format!("{}:\n", Title(&self.checked.object)) } else { String::new() };
        if let Some((file, line)) = &self.checked.place {
            text = format!("{file}: line {line}: {}\n", Title(&self.checked.object));
        }
        let rows: Vec<_> = self.webhooks.iter().flat_map(rows).collect();
        text.push_str(&table(&["WEBHOOK", "REVISION", "INJECTED", "REASON"], &rows));
        for webhook in &self.webhooks {
            text.push_str(&injection(webhook));
        }
        text
    }

    /// Returns the report for programs.
    pub(super) fn json(&self) -> Value {
        let CheckedPod { object, place, .. } = &self.checked;
        let mut report = json!({
            "apiVersion": object.api_version,
            "kind": object.kind,
            "namespace": object.namespace,
            "name": object.name,
            "injected": self.injecting() > 0,
            "overlap": self.injecting() > 1,
            "webhooks": self.webhooks,
        });
        if let Some((file, line)) = place {
            report["file"] = file.clone().into();
            report["line"] = (*line).into();
        }
        report
    }

    /// Returns the changes to the pod as a unified diff; empty if it is not injected.
    pub(super) fn diff(&self) -> anyhow::Result<String> {
        let Some(after) = self.webhooks.iter().rev().find_map(|one| one.pod.as_ref()) else {
            return Ok(String::new());
        };
        let Workload { kind, namespace, name, .. } = &self.checked.object;
        let text = |pod: &Value| yaml::to_string(pod).context("writing a pod as YAML");
        let (before, after) = (text(&self.checked.pod)?, text(after)?);
        let name = format!("{kind}/{namespace}/{name}");
        Ok(unified_diff(&name, [(before.as_str(), after.as_str())].into_iter()))
    }

    /// Returns the conclusions beside the table.
    pub(super) fn messages(&self) -> Vec<String> {
        let mut messages = Vec::new();
        let place = match &self.checked.place {
            Some((file, line)) => format!("{file}: line {line}: "),
            None => String::new(),
        };
        if self.injecting() > 1 {
            messages.push(format!(
                "{place}ERROR: multiple webhooks will inject, which can lead to errors"
            ));
        }
        if self.webhooks.is_empty() {
            messages.push(format!("{place}{NO_WEBHOOK}"));
        }
        if self.checked.running {
            messages.extend(self.difference());
        }
        messages
    }

    /// Describes an existing pod that differs from a new one in its place.
    fn difference(&self) -> Option<String> {
        match (InjectionStatus::from_pod(&self.checked.pod), self.injecting()) {
            (None, 1..) => {
                Some("note: the pod runs without a sidecar; a new one would have it".to_owned())
            }
            (Some(earlier), 0) => Some(format!(
                "note: the pod has a sidecar of revision {}; a new one would have none",
                earlier.revision()
            )),
            (None, 0) | (Some(_), _) => None,
        }
    }

    pub(super) fn injecting(&self) -> usize {
        injecting_entries(&self.webhooks)
    }
}

/// Returns the row of a webhook configuration, and those of its entries.
fn rows(webhook: &Explanation) -> Vec<[String; 4]> {
    let mark = |injected| if injected { "✔" } else { "✘" }.to_owned();
    let row = |name: String, injected, reason: &String| {
        [name, webhook.revision.clone(), mark(injected), reason.clone()]
    };
    let mut rows = vec![row(webhook.webhook.clone(), webhook.injected, &webhook.reason)];
    rows.extend(webhook.entries.iter().map(|entry| {
        let name = format!("  {}", entry.name);
        if entry.selected && !webhook.injected {
            let reason = format!("{}, but the injector skips or denies the pod", entry.reason);
            return row(name, false, &reason);
        }
        row(name, entry.selected, &entry.reason)
    }));
    rows
}

/// Returns the content that a webhook adds; empty if it does not inject the pod.
fn injection(webhook: &Explanation) -> String {
    let Some(injection) = &webhook.injection else { return String::new() };
    let rows = injection.containers.iter().map(|container| {
        [container.name.clone(), container.list.to_owned(), container.image.clone()]
    });
    let rows: Vec<_> = rows.collect();
    let warnings = injection.warnings.iter().map(|warning| format!("warning: {}\n", warning.0));
    format!(
        "\n{} would inject by templates {}:\n{}{}",
        webhook.webhook,
        injection.templates.join(", "),
        table(&["CONTAINER", "LIST", "IMAGE"], &rows),
        warnings.collect::<String>()
    )
}

const NO_WEBHOOK: &str = "note: no MutatingWebhookConfiguration of the cluster calls an injector";
