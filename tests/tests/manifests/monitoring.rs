//! Alerts and dashboards. The tests of installations check that a running injector has its metrics;
//! `alerts` evaluates those of the control plane.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::custom::{Custom, PrometheusRuleSpec};
use crate::documents::{Rendering, mesh_renderings, renderings};

#[test]
fn every_alert_has_a_description() {
    let all = renderings().iter().chain(mesh_renderings());
    for rendering in all.filter(|one| one.has("prometheus") || one.has("mesh-prometheus")) {
        let rules: Custom<PrometheusRuleSpec> = rendering.one("PrometheusRule");
        let rules: Vec<_> = rules.spec.groups.into_iter().flat_map(|group| group.rules).collect();
        let names: BTreeSet<&str> = rules.iter().map(|rule| rule.alert.as_str()).collect();
        assert_eq!(names.len(), rules.len(), "each alert has a name of its own");
        for rule in &rules {
            assert!(["critical", "warning"].contains(&rule.labels["severity"].as_str()));
            for key in ["summary", "description"] {
                assert!(rule.annotations[key].ends_with('.'), "{}: {key}", rule.alert);
            }
        }
    }
}

#[test]
fn dashboard_has_the_label_grafana_needs() {
    let find = |rendering: &Rendering| -> Vec<Value> {
        let maps = rendering.documents.iter().filter(|one| one["kind"] == "ConfigMap");
        maps.filter(|one| one["metadata"]["labels"]["grafana_dashboard"] == "1").cloned().collect()
    };
    let all = renderings().iter().chain(mesh_renderings());
    for rendering in all.filter(|one| one.has("grafana") || one.has("mesh-grafana")) {
        let maps = find(rendering);
        assert_eq!(maps.len(), 1);
        let files = maps[0]["data"].as_object().unwrap();
        let text = files.values().next().unwrap().as_str().unwrap();
        let dashboard: Value = serde_json::from_str(text).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let places: BTreeSet<String> =
            panels.iter().map(|one| one["gridPos"].to_string()).collect();
        let ids: BTreeSet<u64> = panels.iter().map(|one| one["id"].as_u64().unwrap()).collect();
        assert!(panels.len() > 5 && places.len() == panels.len() && ids.len() == panels.len());
        for panel in panels {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
            let targets = panel["targets"].as_array().unwrap();
            assert!(targets.iter().all(|one| !one["expr"].as_str().unwrap().is_empty()));
        }
    }
}
