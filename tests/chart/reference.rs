//! The pages of the charts' values, from their schemas and their files.

use std::fs;

use anyhow::{Context, Result};
use e2e::programs::repository;
use serde_json::Value;

/// Page of a chart's values.
pub(crate) struct Page {
    /// Path of the page in the repository.
    pub(crate) path: &'static str,
    title: &'static str,
    /// Folder of the chart in `manifests`.
    chart: &'static str,
    described: &'static str,
}

pub(crate) const PAGES: [Page; 2] = [
    Page {
        path: "docs/reference/chart.md",
        title: "Values of the Helm chart",
        chart: "chart",
        described: "[Helm](../helm.md) has the chart.",
    },
    Page {
        path: "docs/reference/cni-chart.md",
        title: "Values of the Helm chart of the node agent",
        chart: "cni-chart",
        described: "[Capture without an init container](../cni.md) has the agent.",
    },
];

/// Returns the text of a page.
pub(crate) fn text(page: &Page) -> Result<String> {
    let Page { title, chart, described, .. } = page;
    let read = |name: &str| -> Result<Value> {
        let path = repository().join("manifests").join(chart).join(name);
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        documents::yaml::parse(&text).with_context(|| format!("parsing {}", path.display()))
    };
    let mut rows = Vec::new();
    collect("", &read("values.schema.json")?, &read("values.yaml")?, &mut rows);
    let head = format!(
        "# {title}\n\nGenerated from `manifests/{chart}/values.schema.json` and `values.yaml`: `make \
         manifests` writes this page.\n{described} {STRICT}\n\n{COLUMNS}"
    );
    Ok(format!("{head}{}", rows.concat()))
}

fn collect(path: &str, schema: &Value, value: &Value, rows: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (key, schema) in properties {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            collect(&path, schema, &value[key], rows);
        }
        return;
    }
    let default = if value.is_null() { String::new() } else { format!("`{value}`") };
    let mut meaning = schema["description"].as_str().unwrap_or_default().to_owned();
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<_> = choices.iter().map(|choice| format!("`{choice}`")).collect();
        meaning = format!("{meaning}; one of {}", choices.join(", "));
    }
    rows.push(format!("| `{path}` | {default} | {meaning} |\n"));
}

const STRICT: &str = "Another key, or a value of another type, is an error that names it.";
const COLUMNS: &str = "| value | default | meaning |\n| --- | --- | --- |\n";
