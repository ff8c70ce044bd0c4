//! Alerts and dashboard compared with the metrics of a running injector.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use e2e::manifests::Composition;
use e2e::wait::until;
use serde_json::Value;

use crate::fixture::{Fixture, documents};
use crate::injector::Injector;
use crate::pods;

pub(crate) fn alerts_and_dashboard_use_existing_metrics(fixture: &Fixture) -> Result<()> {
    let rendered = fixture.render(Composition::new(&["prometheus", "grafana"]))?;
    fixture.apply(&rendered)?;
    let injector = Injector::of_manifests(fixture, &rendered)?;
    fixture.until_published("istio-sidecar-injector")?;
    // Some series appear with the first review.
    let client = fixture.admin.clone();
    pods::namespace(fixture, "istio-pods", "istio-injection=enabled")?;
    fixture.runtime.block_on(pods::until_injected(&client, "istio-pods"))?;
    // Others appear with an error.
    let wipe = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
    let hook = "mutatingwebhookconfiguration/istio-sidecar-injector";
    fixture.kubectl().must(["patch", hook, "--type=json", "--patch", wipe])?;
    let overwrites = "sidecar_injector_ca_bundle_overwrites_total{manager=";
    let page = until("the overwritten caBundle is counted", || {
        let page = injector.metrics()?;
        ensure!(page.contains(overwrites), "no series {overwrites} on\n{page}");
        anyhow::Ok(page)
    })?;

    let mut expressions = Vec::new();
    for document in documents(&rendered)? {
        collect(&document, "expr", &mut expressions);
        if let Some(text) = document["data"]["sidecar-injector.json"].as_str() {
            collect(&serde_json::from_str(text)?, "expr", &mut expressions);
        }
    }
    let names: BTreeSet<&str> = expressions.iter().flat_map(|expr| metrics_of(expr)).collect();
    ensure!(names.len() > 15, "only {names:?} are asked for");
    for name in names {
        let is_exported = page
            .lines()
            .any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        ensure!(is_exported, "no metric {name} on\n{page}");
    }
    // Labels that expressions select.
    for series in [
        "sidecar_injection_total{result=\"injected\"",
        "sidecar_injector_handshake_failures_total{cause=\"error\"}",
        "webhook_patch_attempts_total{name=\"istio-sidecar-injector\"}",
    ] {
        ensure!(page.contains(series), "no series {series} on\n{page}");
    }
    let phases = page.lines().filter(|line| line.starts_with("sidecar_injector_ca_phase{phase="));
    ensure!(phases.count() == 3, "not every phase on\n{page}");
    Ok(())
}

/// Returns the injector's metrics in an expression.
fn metrics_of(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| {
        ["sidecar_inject", "webhook_patch"].iter().any(|begin| word.starts_with(begin))
    })
}

fn collect(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get(key).and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| collect(value, key, found));
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, key, found)),
        _ => {}
    }
}
