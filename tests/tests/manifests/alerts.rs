//! Alerts and dashboard of the control plane, evaluated by promtool over series as the program
//! exports them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use e2e::programs::{Programs, repository};
use serde_json::{Value, json};

use crate::documents::{Rendering, mesh_renderings};

#[test]
fn each_alert_fires_by_its_series_alone() {
    let spec = rendering()["PrometheusRule pilot-discovery"]["spec"].clone();
    let rules = spec["groups"][0]["rules"].as_array().unwrap();
    let names: BTreeSet<&str> = rules.iter().map(|rule| rule["alert"].as_str().unwrap()).collect();
    assert_eq!(names, CASES.iter().map(|case| case.alert).collect());
    let test = |series: BTreeMap<String, String>, case: Option<&Case>| {
        let alerts = rules.iter().map(|rule| {
            let case = case.filter(|case| rule["alert"] == case.alert);
            let expected: Vec<_> = case.iter().map(|case| case.expected(rule)).collect();
            json!({"eval_time": EVALUATED, "alertname": rule["alert"], "exp_alerts": expected})
        });
        let alerts: Vec<_> = alerts.collect();
        json!({"interval": "1m", "input_series": listed(&series), "alert_rule_test": alerts})
    };
    let mut tests = vec![test(at_rest(), None)];
    for case in &CASES {
        let mut series = at_rest();
        for (name, values) in case.series {
            let before = series.insert((*name).to_owned(), (*values).to_owned());
            assert!(before.is_some(), "{}: {name} is not exported: {series:#?}", case.alert);
        }
        tests.push(test(series, Some(case)));
    }
    promtool(&spec, &tests);
}

#[test]
fn each_panel_of_the_dashboard_has_data() {
    let maps = &rendering()["ConfigMap pilot-discovery-dashboard"]["data"];
    let text = maps["pilot-discovery.json"].as_str().unwrap();
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let tests = targets.map(|target| {
        let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
        // No sample is expected: the expression has one.
        json!({"expr": format!("absent({expression})"), "eval_time": EVALUATED})
    });
    let tests: Vec<_> = tests.collect();
    assert!(tests.len() > 20);
    let series = listed(&at_rest());
    let test = json!({"interval": "1m", "input_series": series, "promql_expr_test": tests});
    promtool(&json!({"groups": []}), &[test]);
}

/// Alert, and the series by which it fires.
struct Case {
    alert: &'static str,
    /// Names in [`at_rest`], and other values.
    series: &'static [(&'static str, &'static str)],
    labels: &'static [(&'static str, &'static str)],
    /// Value as the annotations show it.
    value: &'static str,
}

impl Case {
    /// Alert as it fires, with the annotations of its rule.
    fn expected(&self, rule: &Value) -> Value {
        let labels = self.labels.iter().copied();
        let mut labels: BTreeMap<&str, &str> = labels.collect();
        let mut annotations = BTreeMap::new();
        for (name, text) in rule["annotations"].as_object().unwrap() {
            let mut text = text.as_str().unwrap().to_owned();
            for (label, value) in &labels {
                text = text.replace(&format!("{{{{ $labels.{label} }}}}"), value);
            }
            annotations.insert(name, text.replace("{{ $value | humanizeDuration }}", self.value));
        }
        labels.insert("severity", rule["labels"]["severity"].as_str().unwrap());
        json!({"exp_labels": labels, "exp_annotations": annotations})
    }
}

/// Series of a control plane at rest by name, from the reference page, which the metrics of the
/// program are compared with.
fn at_rest() -> BTreeMap<String, String> {
    let page = repository().join("docs/reference/pilot-discovery.md");
    let page = fs::read_to_string(page).unwrap();
    let table = page.split_once("## Metrics").unwrap().1;
    let mut series = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let (name, labels, help) = (cells[1], cells[2], cells[3]);
        let labels = labels.split(", ").filter(|label| !label.is_empty());
        let labels: Vec<_> = labels.map(|label| format!(",{label}=\"x\"")).collect();
        let labels = labels.concat();
        if help.starts_with("Histogram") {
            for bound in ["0.01", "3.0", "5.0", "+Inf"] {
                let bucket = format!("{name}_bucket{{pod=\"a\"{labels},le=\"{bound}\"}}");
                series.insert(bucket, "0+60x200".to_owned());
            }
        } else {
            let values = if name.ends_with("_timestamp") { "1e9x200" } else { "0x200" };
            series.insert(format!("{name}{{pod=\"a\"{labels}}}"), values.to_owned());
        }
    }
    assert!(series.len() > 30, "{series:?}");
    for pod in ["a", "b"] {
        series.insert(format!("up{{pod=\"{pod}\"}}"), "1x200".to_owned());
    }
    series
}

/// Series with the labels that Prometheus adds.
fn listed(series: &BTreeMap<String, String>) -> Vec<Value> {
    let list = series.iter();
    let list = list.map(|(name, values)| (name.replace('}', TARGET), values));
    list.map(|(series, values)| json!({ "series": series, "values": values })).collect()
}

/// Runs promtool's tests over rules.
pub(crate) fn promtool(rules: &Value, tests: &[Value]) {
    let folder = tempfile::tempdir().unwrap();
    let suite = json!({"rule_files": ["rules.json"], "evaluation_interval": "1m", "tests": tests});
    fs::write(folder.path().join("rules.json"), rules.to_string()).unwrap();
    fs::write(folder.path().join("suite.json"), suite.to_string()).unwrap();
    let program = Programs::find().unwrap().promtool().unwrap();
    let mut promtool = Command::new(program);
    let output = promtool.args(["test", "rules", "suite.json"]).current_dir(folder.path());
    let output = output.output().unwrap();
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}{error}");
}

/// Objects of the whole mesh with alerts and dashboard, by kind and name.
fn rendering() -> BTreeMap<String, Value> {
    let mut all = mesh_renderings().iter();
    let found: &Rendering = all.find(|one| one.has("mesh-grafana")).unwrap();
    let name = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    found.documents.iter().map(|object| (name(object), object.clone())).collect()
}

/// Labels by the `ServiceMonitor`.
const TARGET: &str = ",istio_io_rev=\"default\",job=\"pilot-discovery\"}";
/// Instant of the evaluation, ten minutes after most series change.
const EVALUATED: &str = "130m";
const POD: [(&str, &str); 3] =
    [("istio_io_rev", "default"), ("job", "pilot-discovery"), ("pod", "a")];
const REVISION: [(&str, &str); 1] = [("istio_io_rev", "default")];
/// One event.
const ONCE: &str = "0x120 1x80";
/// One event before the first scrape.
const AT_START: &str = "_x120 1x80";
const DAY: &str = "86400x200";
const CASES: [Case; 16] = [
    Case {
        alert: "PilotDiscoveryDown",
        series: &[("up{pod=\"a\"}", "1x120 0x80"), ("up{pod=\"b\"}", "1x120 0x80")],
        labels: &REVISION,
        value: "",
    },
    Case {
        alert: "PilotDiscoveryDown",
        series: &[("up{pod=\"a\"}", "1x120 stale"), ("up{pod=\"b\"}", "1x120 stale")],
        labels: &[("job", "pilot-discovery")],
        value: "",
    },
    Case {
        alert: "PilotDiscoverySingle",
        series: &[("up{pod=\"b\"}", "1x90 0x110")],
        labels: &REVISION,
        value: "",
    },
    Case {
        alert: "PilotDiscoveryProxiesReject",
        series: &[("pilot_total_xds_rejects{pod=\"a\",type=\"x\"}", ONCE)],
        labels: &[("type", "x")],
        value: "",
    },
    Case {
        alert: "PilotDiscoveryProxiesReject",
        series: &[("pilot_total_xds_rejects{pod=\"a\",type=\"x\"}", AT_START)],
        labels: &[("type", "x")],
        value: "",
    },
    Case {
        alert: "PilotDiscoverySlow",
        series: &[
            ("pilot_proxy_convergence_time_bucket{pod=\"a\",le=\"0.01\"}", "0x200"),
            ("pilot_proxy_convergence_time_bucket{pod=\"a\",le=\"3.0\"}", "0x200"),
        ],
        labels: &[],
        value: "4.98s",
    },
    Case {
        alert: "PilotDiscoveryRegistryDrift",
        series: &[("pilot_registry_drift{pod=\"a\",kind=\"x\"}", ONCE)],
        labels: &[POD[0], POD[1], POD[2], ("kind", "x")],
        value: "",
    },
    Case {
        alert: "PilotDiscoveryConfigurationInvalid",
        series: &[("pilot_total_rejected_configs{pod=\"a\",kind=\"x\"}", ONCE)],
        labels: &[("kind", "x")],
        value: "",
    },
    Case {
        alert: "PilotDiscoveryConfigurationInvalid",
        series: &[("pilot_total_rejected_configs{pod=\"a\",kind=\"x\"}", AT_START)],
        labels: &[("kind", "x")],
        value: "",
    },
    Case {
        alert: "PilotDiscoveryProxiesClosed",
        series: &[("outrigger_closed_proxies{pod=\"a\"}", "0x100 1x100")],
        labels: &POD,
        value: "",
    },
    Case {
        alert: "PilotDiscoveryConnectionsRefused",
        series: &[("pilot_refused_connections{pod=\"a\"}", "0x120 1+1x80")],
        labels: &POD,
        value: "",
    },
    Case {
        alert: "PilotDiscoverySigningFails",
        series: &[("citadel_server_csr_sign_err_count{pod=\"a\"}", ONCE)],
        labels: &POD,
        value: "",
    },
    Case {
        alert: "PilotDiscoveryRootExpires",
        series: &[("citadel_server_root_cert_expiry_timestamp{pod=\"a\"}", DAY)],
        labels: &POD,
        value: "",
    },
    Case {
        alert: "PilotDiscoveryAuthorityExpires",
        series: &[("citadel_server_cert_chain_expiry_timestamp{pod=\"a\"}", DAY)],
        labels: &POD,
        value: "",
    },
    Case {
        alert: "PilotDiscoveryUpkeepFails",
        series: &[("pilot_ca_upkeep_failing{pod=\"a\"}", "0x100 1x100")],
        labels: &POD,
        value: "",
    },
    Case {
        alert: "PilotDiscoveryRightsMissing",
        series: &[("pilot_ca_rbac_denied{pod=\"a\",call=\"x\"}", "0x100 1x100")],
        labels: &[POD[0], POD[1], POD[2], ("call", "x")],
        value: "",
    },
];
