//! Reference page of `sidecar-injector`: flags, metrics and Events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use reason::{Reason, words};
use reference_pages::{Page, code};
use serde_json::json;
use tokio::sync::watch;
use webhook_certs::status::{Patches, Probe, Status};

use super::config::args::grammar;
use super::reports::events::State;
use super::reports::metrics::ReportMetrics;
use super::reports::state::SharedReport;
use super::run_error::EXIT_CODES;
use super::telemetry::metric_table::{METRICS, MetricSpec};
use super::telemetry::metrics::{CallResult, Metrics};
use super::telemetry::watch_state::WatchState;
use crate::report::sidecar_state::SidecarState;
use crate::report::tally::Tally;

fn reference() -> String {
    let mut metrics = METRICS.to_vec();
    metrics.sort_by_key(|spec| spec.name);
    let metrics = metrics.into_iter().map(metric_row).collect();
    let events = State::all().map(|(state, when)| {
        let (reason, kind, _) = state.words();
        [code(reason), kind.to_owned(), when.to_owned()]
    });
    Page::new("sidecar-injector")
        .text(
            "A flag overrides its environment variable. Durations are Go's, such as `1m30s`. See \
             also [Installation](../install.md) and [Reports](../reports.md).",
        )
        .flags(&grammar())
        .heading(2, "Metrics")
        .text(
            "`/metrics` of `--adminAddr` has them in the OpenMetrics format. [Reasons](reasons.md) \
             has the values of the label `reason`. The metrics of reports need `--report-interval`, \
             and those of the CA a cluster.",
        )
        .table(["metric", "type", "labels", "help"], metrics)
        .heading(2, "Events")
        .text(
            "On workloads, with `--report-interval`. The Events on the CA Secret are those of \
             [webhook-certs](webhook-certs.md#events).",
        )
        .table(["reason", "type", "when"], events.to_vec())
        .exit_codes(&EXIT_CODES)
        .into_text()
}

fn metric_row(spec: &MetricSpec) -> [String; 4] {
    let labels: Vec<_> = spec.labels.iter().map(|label| code(label)).collect();
    let name = format!("{}{}", spec.name, suffix(spec.kind));
    [code(&name), spec.kind.as_str().to_owned(), labels.join(", "), spec.help.to_owned()]
}

/// Returns what the format adds to the name of a family with one sample.
fn suffix(kind: MetricType) -> &'static str {
    match kind {
        MetricType::Counter => "_total",
        MetricType::Info => "_info",
        MetricType::Gauge | MetricType::Histogram | MetricType::Unknown => "",
    }
}

#[test]
fn page_is_current() {
    reference_pages::check("reference/sidecar-injector.md", &reference());
}

#[test]
fn manual_is_current() {
    reference_pages::check_manual(grammar());
}

/// Type, labels and help of a family, as its page of metrics has them.
#[derive(Debug, Default, Eq, PartialEq)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    has_samples: bool,
}

#[test]
fn table_of_metrics_is_what_a_scrape_has() {
    let expected: BTreeMap<_, _> = METRICS
        .iter()
        .map(|spec| {
            let labels = spec.labels.iter().map(|&label| label.to_owned()).collect();
            let (kind, help) = (spec.kind.as_str().to_owned(), spec.help.to_owned());
            (spec.name.to_owned(), Family { kind, help, labels, has_samples: true })
        })
        .collect();
    assert_eq!(families(&page_with_every_family()), expected);
}

/// Returns a page on which every family has a sample.
fn page_with_every_family() -> String {
    let mut metrics = Metrics::new();
    metrics.follow_log(Counter::default());
    metrics.answered(CallResult::Denied, words::BAD_POD.as_str(), true, Duration::ZERO);
    metrics.watch("nodes", WatchState::Current);
    let status = Status {
        probe: Some(Probe { cause: Some("untrusted"), message: String::new() }),
        overwrites: [("flux".to_owned(), 1)].into(),
        denied: vec!["patch secrets/ca".to_owned()],
        patches: [("hook".to_owned(), Patches { attempts: 1, retries: 1, failures: 1 })].into(),
        ..Status::default()
    };
    metrics.follow(watch::channel(status).1);
    let mut tally = Tally::default();
    let pod = json!({"metadata": {"name": "web", "namespace": "shop"}});
    let reason = || Reason::new(words::NO_SIDECAR, "");
    tally.add(&pod, SidecarState::Missing(reason()));
    tally.add(&pod, SidecarState::Stale(vec![reason()]));
    let report = SharedReport::default();
    report.completed(&tally, Timestamp::UNIX_EPOCH);
    metrics.collect(Box::new(ReportMetrics(report)));
    metrics.encode(None)
}

/// Parses a page in the `OpenMetrics` format.
fn families(page: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    let mut latest = String::new();
    for line in page.lines().filter(|line| *line != "# EOF") {
        if let Some((name, help)) =
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            latest = name.to_owned();
            // The registry ends help texts with a full stop.
            families.entry(latest.clone()).or_default().help =
                help.trim_end_matches('.').to_owned();
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            latest = name.to_owned();
            families.entry(latest.clone()).or_default().kind = kind.to_owned();
        } else {
            let family = families.entry(latest.clone()).or_default();
            family.has_samples = true;
            let labels = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
            let labels = labels.map_or("", |(labels, _)| labels).split(',');
            let names = labels.filter_map(|label| label.split_once('=')).map(|(name, _)| name);
            // The format's own label of a histogram's buckets.
            family.labels.extend(names.filter(|name| *name != "le").map(str::to_owned));
        }
    }
    families
}
