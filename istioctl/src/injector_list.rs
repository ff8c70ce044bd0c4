//! `istioctl experimental injector list`: namespaces, injectors, and pods that need a restart.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, ensure};
use clap::Args;
use injector::cluster::{namespaces, pods};
use injector::report::inspection::Injectors;
use injector::report::inventory::{Count, InjectorRow, Inventory, NamespaceRow, PodFinding};
use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{Cluster, ClusterClient};
use crate::output::Form;
use crate::progress::Progress;
use crate::table::table;
use crate::{Failure, Streams, cluster, output};

/// List namespaces, injectors, and pods that need a restart
///
/// A pod needs a restart if it has no sidecar although a webhook selects it and the injector would
/// inject it, or if a new pod would get another sidecar: by another revision, with another image or
/// other containers. --namespace restricts the lists to one namespace.
#[derive(Debug, Args)]
pub(super) struct InjectorList {
    /// Only pods with these labels, by kubectl's selectors such as `app in (web,api),!canary`
    /// [default: all]
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// List all namespaces, as without --namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Output format
    #[arg(short, long, value_name = "FORM", value_enum, default_value = "table")]
    output: Form,
}

impl InjectorList {
    pub(super) fn run(
        &self,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> Result<(), Failure> {
        let listed = cluster::ask(cluster_client.flags, async |Cluster { client, name }| {
            self.list(client, cluster_client, streams).await.context(name)
        });
        let listed = listed.map_err(Failure::from_error)?;
        let text = match self.output {
            Form::Table => listed.tables(),
            form => form.render(&listed.json()).map_err(Failure::from_error)?,
        };
        output::write(streams.output, &text).map_err(Failure::from_error)
    }

    async fn list(
        &self,
        client: Client,
        cluster_client: ClusterClient<'_>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Listed> {
        let configurations = cluster::configurations(&client, streams).await?;
        let known =
            cluster::injectors(&client, cluster_client.control_plane, &configurations, streams)
                .await;
        let namespaces = namespaces::labels(client.clone()).await;
        let namespaces = namespaces.context("listing namespaces")?;
        let only = Some(cluster_client.namespace).filter(|name| !name.is_empty());
        if let Some(name) = only {
            ensure!(namespaces.contains_key(name), "--namespace {name}: no such namespace");
        }
        let injectors = Injectors { configurations: &configurations, known: &known };
        let mut inventory = Inventory::new(injectors, &namespaces);
        let selection = pods::Selection { namespace: only, labels: &self.selector };
        let mut progress = Progress::new(streams, "pods");
        let read = pods::each(client, selection, PAGE, |pod| {
            progress.count();
            inventory.add(&pod);
        });
        read.await.context("listing pods")?;
        let (mut rows, injectors) =
            (inventory.namespaces(cluster_client.control_plane), inventory.injectors());
        rows.retain(|row| only.is_none_or(|name| row.namespace == name));
        Ok(Listed { namespaces: rows, injectors, findings: inventory.findings() })
    }
}

struct Listed {
    namespaces: Vec<NamespaceRow>,
    injectors: Vec<InjectorRow>,
    findings: Vec<PodFinding>,
}

impl Listed {
    fn tables(&self) -> String {
        let namespaces: Vec<_> = self.namespaces.iter().map(namespace_cells).collect();
        let injectors: Vec<_> = self.injectors.iter().map(injector_cells).collect();
        let findings: Vec<_> = self.findings.iter().map(finding_cells).collect();
        let mut tables =
            vec![table(&["NAMESPACE", "ISTIO-REVISION", "POD-REVISIONS"], &namespaces)];
        let header = ["NAMESPACES", "INJECTOR-HOOK", "ISTIO-REVISION", "SIDECAR-IMAGE"];
        tables.push(table(&header, &injectors));
        if !findings.is_empty() {
            tables.push(table(&["NAMESPACE", "POD", "OWNER", "STATE", "REASON"], &findings));
        }
        tables.join("\n")
    }

    fn json(&self) -> Value {
        let findings = self.findings.iter().map(|finding| {
            let reasons = finding.reasons.iter().map(|reason| {
                json!({"word": reason.word(), "message": reason.message(), "hint": reason.hint()})
            });
            json!({
                "namespace": finding.namespace,
                "pod": finding.name,
                "owner": finding.owner,
                "state": finding.state,
                "reasons": reasons.collect::<Vec<_>>(),
            })
        });
        json!({
            "namespaces": self.namespaces,
            "injectors": self.injectors,
            "pods": findings.collect::<Vec<_>>(),
        })
    }
}

fn namespace_cells(row: &NamespaceRow) -> [String; 3] {
    [row.namespace.clone(), row.revision.clone(), pod_revisions(&row.pods)]
}

/// Formats the pods' revisions like Istio's command.
fn pod_revisions(pods: &BTreeMap<String, Count>) -> String {
    if pods.is_empty() {
        return "<no pods>".to_owned();
    }
    let shown = pods.iter().map(|(revision, count)| {
        let mut text = format!("{revision}: {}", count.pods);
        if count.injection_disabled > 0 {
            let _ = write!(text, " (injection disabled: {})", count.injection_disabled);
        }
        if count.needs_restart > 0 {
            let _ = write!(text, " NEEDS RESTART: {}", count.needs_restart);
        }
        text
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn injector_cells(row: &InjectorRow) -> [String; 4] {
    let namespaces = match row.namespaces.as_slice() {
        [] => "DOES NOT AUTOINJECT".to_owned(),
        namespaces => namespaces.join(","),
    };
    [namespaces, row.hook.clone(), row.revision.clone(), row.image.clone()]
}

fn finding_cells(finding: &PodFinding) -> [String; 5] {
    let reasons = finding.reasons.iter();
    let reasons = reasons.map(|reason| format!("{} ({})", reason.message(), reason.word()));
    [
        finding.namespace.clone(),
        finding.name.clone(),
        finding.owner.clone(),
        finding.state.to_owned(),
        reasons.collect::<Vec<_>>().join("; "),
    ]
}

/// Page size of the list of pods, which bounds the memory.
const PAGE: u32 = 200;
