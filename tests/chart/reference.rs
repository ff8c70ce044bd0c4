//! The page of the chart's values, from their schema and their file.

use std::fs;

use anyhow::{Context, Result};
use e2e::programs::repository;
use serde_json::Value;

/// Returns the page `docs/reference/chart.md`.
pub(crate) fn page() -> Result<String> {
    let read = |name: &str| -> Result<Value> {
        let path = repository().join("manifests/chart").join(name);
        let text = fs::read_to_string(&path);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        documents::yaml::parse(&text).with_context(|| format!("parsing {}", path.display()))
    };
    let mut rows = Vec::new();
    collect("", &read("values.schema.json")?, &read("values.yaml")?, &mut rows);
    Ok(format!("{HEAD}{}", rows.concat()))
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

const HEAD: &str = "\
# Values of the Helm chart

Generated from `manifests/chart/values.schema.json` and `values.yaml`: `make manifests` writes this page.
[Helm](../helm.md) has the chart. Another key, or a value of another type, is an error that names it.

| value | default | meaning |
| --- | --- | --- |
";
