//! Checked pods as SVG and as Mermaid text: labels, webhook entries, decisions of the injectors.

use std::fmt::Write as _;

use injector::report::explanation::Explanation;
use istio_init::render::mermaid::escape;
use istio_init::render::svg::{Svg, fitted, wrapped};
use serde_json::Value;

use super::report::CheckReport;
use crate::finding::Title;

/// Renders SVG: the labels on the left, one row for each webhook entry, the decisions on the right.
pub(super) fn svg(reports: &[CheckReport]) -> String {
    let mut svg = Svg::default();
    svg.text("t", 20, 26, TITLE);
    let mut y = 44;
    for report in reports {
        y = draw(&mut svg, report, y) + 24;
    }
    svg.arrow("in", 20, 70, y);
    svg.text("s", 80, y + 4, "selects the pod");
    svg.barred(190, 234, y);
    svg.text("s", 250, y + 4, "does not");
    let webhooks = reports.iter().flat_map(|report| &report.webhooks);
    let reasons: Vec<_> = webhooks.map(|one| format!("{}: {}", one.webhook, one.reason)).collect();
    svg.finish([RESULT + 300, y + 20], TITLE, &reasons.join(". "))
}

/// Draws a pod from `top` on; returns the lower edge.
fn draw(svg: &mut Svg, report: &CheckReport, top: u32) -> u32 {
    let labels = drawn_labels(report);
    let mut y = top + 8;
    if report.webhooks.is_empty() {
        svg.text("", ENTRY, y + 24, "No webhook of the cluster calls an injector.");
    }
    for webhook in &report.webhooks {
        svg.text("t", ENTRY, y + 14, &fitted(&webhook.webhook, 50));
        y += 24;
        let start = y;
        let mut arrows = Vec::new();
        for entry in &webhook.entries {
            let reason = wrapped(&entry.reason, 62);
            let height = 34 + 15 * count(&reason);
            svg.rect(if entry.selected { "proxy" } else { "box" }, [ENTRY, y, 400, height]);
            svg.text("", ENTRY + 12, y + 20, &fitted(&entry.name, 52));
            for (line, place) in reason.iter().zip((y + 37..).step_by(15)) {
                svg.text("s", ENTRY + 12, place, line);
            }
            let line = y + height / 2;
            if entry.selected {
                svg.arrow("in", LABELS + 250, ENTRY, line);
                arrows.push(line);
            } else {
                svg.barred(LABELS + 250, ENTRY - 20, line);
            }
            y += height + 8;
        }
        let (class, lines) = decision(webhook);
        let height = (y - 8 - start).max(20 + 16 * count(&lines));
        for arrow in arrows {
            svg.arrow("in", ENTRY + 400, RESULT, arrow);
        }
        svg.rect(class, [RESULT, start, 280, height]);
        let first = start + 8 + (height - 16 * count(&lines)) / 2;
        for (line, place) in lines.iter().zip((first + 4..).step_by(16)) {
            svg.text("", RESULT + 12, place, line);
        }
        y = y.max(start + height + 8) + 8;
    }
    if report.injecting() > 1 {
        svg.text("t", RESULT, y + 14, TWICE);
        y += 24;
    }
    let bottom = y.max(top + 24 + GAP + 17 * count(&labels));
    svg.rect("pod", [LABELS, top, 250, bottom - top]);
    let mut place = top + 22;
    let mut before = "";
    for (class, line) in labels {
        if class != before && class.is_empty() {
            place += GAP;
        }
        svg.text(class, LABELS + 12, place, &line);
        (place, before) = (place + 17, class);
    }
    bottom
}

/// Returns the lines of [`label_lines`] as they fit into the box, with their classes.
fn drawn_labels(report: &CheckReport) -> Vec<(&'static str, String)> {
    let lines = label_lines(report);
    let lines = lines.iter().flat_map(|line| {
        let (class, most) = if line.starts_with("  ") { ("s", 34) } else { ("", 30) };
        wrapped(line.trim_start(), most).into_iter().map(move |part| (class, part))
    });
    lines.collect()
}

/// Renders a flowchart.
pub(super) fn mermaid(reports: &[CheckReport]) -> String {
    let mut text = String::from("flowchart LR\n");
    for (pod, report) in reports.iter().enumerate() {
        let labels = label_lines(report);
        let _ = writeln!(text, "  pod{pod}[{}]", quoted(&labels));
        if report.injecting() > 1 {
            let _ = writeln!(text, "  pod{pod}twice[\"{TWICE}\"]");
        }
        for (number, webhook) in report.webhooks.iter().enumerate() {
            let id = format!("pod{pod}webhook{number}");
            let title = quoted(std::slice::from_ref(&webhook.webhook));
            let _ = writeln!(text, "  subgraph {id} [{title}]");
            for (index, entry) in webhook.entries.iter().enumerate() {
                let lines = [vec![entry.name.clone()], wrapped(&entry.reason, 60)].concat();
                let _ = writeln!(text, "    {id}e{index}[{}]", quoted(&lines));
            }
            let (_, lines) = decision(webhook);
            let _ = writeln!(text, "  end\n  {id}d([{}])", quoted(&lines));
            for (index, entry) in webhook.entries.iter().enumerate() {
                if entry.selected {
                    let _ = writeln!(text, "  pod{pod} --> {id}e{index} --> {id}d");
                } else {
                    let _ = writeln!(text, "  pod{pod} -. no .-> {id}e{index}");
                }
            }
        }
    }
    text
}

/// Returns the decision of a webhook's injector: class of its box, and lines of text.
fn decision(webhook: &Explanation) -> (&'static str, Vec<String>) {
    let revision = format!("Injector, revision {}:", webhook.revision);
    let is_asked = webhook.entries.iter().any(|entry| entry.selected);
    let mut lines = vec![fitted(&revision, DECISION)];
    match &webhook.injection {
        Some(injection) => {
            lines.push("injects".to_owned());
            let names = injection.containers.iter();
            lines.extend(names.map(|container| fitted(&format!("• {}", container.name), DECISION)));
        }
        None if webhook.injected => {
            lines.extend(wrapped("is asked; its configuration is not known", DECISION));
        }
        None if is_asked => lines.extend(wrapped(&webhook.reason, DECISION)),
        None => lines.push("is not asked".to_owned()),
    }
    (if webhook.injected { "proxy" } else { "box" }, lines)
}

/// Returns the pod and the labels that webhooks see, indented below their object.
fn label_lines(report: &CheckReport) -> Vec<String> {
    let object = &report.checked.object;
    let namespace = &report.namespace_labels;
    let pod = &report.checked.pod["metadata"]["labels"];
    let mut lines = vec![format!("Namespace {}", object.namespace)];
    lines.extend(labels(namespace));
    lines.push(match object.name.as_str() {
        "" => "Pod with the labels".to_owned(),
        _ => Title(object).to_string(),
    });
    lines.extend(labels(pod));
    lines
}

fn labels(labels: &Value) -> Vec<String> {
    let labels = labels.as_object().into_iter().flatten();
    let mut lines: Vec<_> = labels
        .map(|(key, value)| format!("  {key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if lines.is_empty() {
        lines.push("  no labels".to_owned());
    }
    if lines.len() > MOST_LABELS {
        let more = lines.len() - MOST_LABELS;
        lines.truncate(MOST_LABELS);
        lines.push(format!("  and {more} more"));
    }
    lines
}

/// Returns a quoted label of several lines.
fn quoted(lines: &[String]) -> String {
    let mut label = String::from("\"");
    for (index, line) in lines.iter().enumerate() {
        label.push_str(if index == 0 { "" } else { "<br/>" });
        escape(&mut label, line.trim_start());
    }
    label + "\""
}

fn count<T>(lines: &[T]) -> u32 {
    u32::try_from(lines.len()).unwrap_or(u32::MAX / 100)
}

const TWICE: &str = "ERROR: multiple webhooks inject";
const TITLE: &str = "Webhooks and labels of a pod";
/// Labels per object.
const MOST_LABELS: usize = 12;
/// Characters in a line of a decision.
const DECISION: usize = 35;
/// Space between the labels of the namespace and the pod.
const GAP: u32 = 8;
/// Left edges.
const LABELS: u32 = 20;
const ENTRY: u32 = 340;
const RESULT: u32 = 810;
