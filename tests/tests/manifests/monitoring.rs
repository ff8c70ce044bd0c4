//! Alerts and dashboards. The tests of installations check that a running injector has its metrics;
//! `alerts` evaluates those of the control plane.

use std::collections::BTreeSet;

use e2e::manifests;
use e2e::programs::{Programs, repository};
use serde_json::Value;

use crate::cni;
use crate::custom::{Custom, PrometheusRuleSpec};
use crate::documents::{Rendering, mesh_renderings, renderings};

#[test]
fn every_alert_has_a_description() {
    let mut count = 0;
    for rendering in renderings().iter().chain(mesh_renderings()) {
        let rules: Vec<Custom<PrometheusRuleSpec>> = rendering.all("PrometheusRule");
        let groups = rules.into_iter().flat_map(|one| one.spec.groups);
        let rules: Vec<_> = groups.flat_map(|group| group.rules).collect();
        count += rules.len();
        let names: BTreeSet<&str> = rules.iter().map(|rule| rule.alert.as_str()).collect();
        assert_eq!(names.len(), rules.len(), "each alert has a name of its own");
        for rule in &rules {
            assert!(["critical", "warning"].contains(&rule.labels["severity"].as_str()));
            for key in ["summary", "description"] {
                assert!(rule.annotations[key].ends_with('.'), "{}: {key}", rule.alert);
            }
            let runbook = format!("{DEFAULT_RUNBOOKS}#{}", rule.alert.to_lowercase());
            assert_eq!(rule.annotations["runbook_url"], runbook);
        }
    }
    assert!(count > 100, "{count} alerts");
}

#[test]
fn component_sets_the_page_of_every_runbook() {
    let components =
        ["prometheus", "mesh-prometheus", "trust-probe", "reports", "runbooks", "mesh-revision"];
    let page = "https://git.example.com/outrigger/docs/alerts.md?plain=1";
    let texts = [("runbooks", "url", page), ("revision", "revision", "canary")];
    let programs = Programs::find().unwrap();
    let text = manifests::render(&programs, "mesh", &components, &texts).unwrap();
    let runbooks = text.lines().filter(|line| line.contains("runbook_url: "));
    let runbooks: Vec<_> = runbooks.map(str::trim).collect();
    assert!(runbooks.len() > 30, "{runbooks:?}");
    let begin = format!("runbook_url: {page}#");
    assert!(runbooks.iter().all(|line| line.starts_with(&begin)), "{runbooks:?}");
    assert!(!text.contains(DEFAULT_RUNBOOKS) && !text.contains("name: runbooks"));
}

/// With both kinds, each replica would be scraped twice.
#[test]
fn replicas_are_scraped_by_one_monitor() {
    for rendering in renderings().iter().chain(mesh_renderings()) {
        let monitors = rendering.documents.iter().filter(|one| {
            let is_monitor = one["kind"] == "ServiceMonitor" || one["kind"] == "PodMonitor";
            is_monitor && one["metadata"]["name"] != "istio-proxies"
        });
        let by_program: Vec<_> = monitors.map(|one| &one["metadata"]["labels"]["app"]).collect();
        let distinct: BTreeSet<_> = by_program.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), by_program.len(), "{:?}", rendering.composition);
    }
}

/// The job of alerts and dashboard has the name of the Service behind a `ServiceMonitor`; a
/// `PodMonitor` has to set it.
#[test]
fn pod_monitor_sets_the_job_of_the_alerts() {
    let pods = renderings().iter().filter(|one| one.has("prometheus-pods"));
    for rendering in pods {
        let monitors = rendering.documents.iter().filter(|one| one["kind"] == "PodMonitor");
        let mut monitors = monitors.filter(|one| one["metadata"]["name"] != "istio-proxies");
        let endpoint = &monitors.next().unwrap()["spec"]["podMetricsEndpoints"][0];
        let relabeling = &endpoint["relabelings"][0];
        assert_eq!(relabeling["targetLabel"], "job");
        let job = relabeling["replacement"].as_str().unwrap().replace("$1", "canary");
        let rules = rendering.documents.iter().find(|one| one["kind"] == "PrometheusRule");
        let expressions = rules.unwrap().to_string();
        assert!(expressions.contains("sidecar-injector-metrics(-.+)?"), "{expressions}");
        assert_eq!(job, "sidecar-injector-metrics-canary");
    }
}

/// A section that no alert has any more is as bad as a missing one.
#[test]
fn every_alert_has_a_section_in_the_documentation() {
    let mut alerts = BTreeSet::new();
    let agent = cni::rendered(&["../cni/monitoring"]);
    let all = renderings().iter().chain(mesh_renderings());
    for documents in all.map(|rendering| &rendering.documents).chain([&agent]) {
        let rules = documents.iter().filter(|one| one["kind"] == "PrometheusRule");
        let groups = rules.flat_map(|one| one["spec"]["groups"].as_array().unwrap());
        let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
        alerts.extend(rules.map(|rule| rule["alert"].as_str().unwrap()));
    }
    let page = std::fs::read_to_string(repository().join("docs/alerts.md")).unwrap();
    let sections: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(alerts, sections);
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

/// The page without the component `runbooks`: a reserved name, which nobody's host has.
const DEFAULT_RUNBOOKS: &str = "https://outrigger.example/alerts.html";
