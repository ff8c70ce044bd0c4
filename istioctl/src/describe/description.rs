//! Description of a pod: its ports, its sidecar, its capture, and the Services that select it.

use std::fmt::Write as _;
use std::net::IpAddr;

use injector::inject::reinject::status::InjectionStatus;
use injector::kubernetes::pod::{INIT_CONTAINERS, PROXY, find_proxy};
use serde_json::{Value, json};

use super::answer::Answer;
use super::capture::{Capture, CaptureSource, proxy};
use super::packets::typical;
use super::ports::{ContainerPort, SelectingService};
use super::state::PodState;
use super::warnings::warnings;
use crate::table::table;

/// Description of a pod.
#[derive(Debug)]
pub(super) struct PodDescription {
    /// `Pod`, or the kind of the workload.
    kind: String,
    name: String,
    namespace: String,
    revision: Option<String>,
    /// State of a pod that exists.
    state: Option<PodState>,
    ports: Vec<ContainerPort>,
    sidecar: Option<Sidecar>,
    capture: Result<Capture, String>,
    answers: Vec<Answer>,
    services: Vec<SelectingService>,
    warnings: Vec<String>,
    suggestions: Vec<String>,
}

/// Proxy container of a pod.
#[derive(Debug)]
struct Sidecar {
    image: String,
    is_native: bool,
}

/// Pod to describe.
#[derive(Debug)]
pub(super) struct DescribedPod<'a> {
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    /// The pod after injection.
    pub(super) pod: &'a Value,
    /// Reason why the pod has no sidecar, if the injector gave one.
    pub(super) skipped: Option<String>,
    /// Warnings of the injector.
    pub(super) warnings: Vec<String>,
}

impl PodDescription {
    /// Describes a pod. `services` are those of its namespace.
    pub(super) fn new<'a>(
        described: DescribedPod<'_>,
        services: impl Iterator<Item = &'a Value>,
        name_server: Option<IpAddr>,
    ) -> Self {
        let DescribedPod { kind, name, namespace, pod, skipped, warnings: mut warned } = described;
        let ports = ContainerPort::of_pod(pod);
        let labels = &pod["metadata"]["labels"];
        let services = SelectingService::of_pod(services, labels, &ports);
        let capture = skipped.map_or_else(|| Capture::of_pod(pod, name_server), Err);
        let answers = capture.as_ref().map_or_else(
            |_| Vec::new(),
            |capture| {
                let packets = typical(capture, pod, &ports, &services).into_iter();
                packets.map(|packet| Answer::new(capture, pod, packet)).collect()
            },
        );
        let found = warnings(pod, capture.as_ref().ok(), &ports, &services, &answers);
        // The injector warns of some of these in the same words.
        let subject = |warning: &str| warning.split(',').next().map(str::to_owned);
        let known: Vec<_> = warned.iter().map(|warning| subject(warning)).collect();
        warned.extend(found.into_iter().filter(|warning| !known.contains(&subject(warning))));
        let missing = ["app", "version"].into_iter().filter(|label| {
            let canonical = match *label {
                "app" => ["app.kubernetes.io/name", "service.istio.io/canonical-name"],
                _ => ["app.kubernetes.io/version", "service.istio.io/canonical-revision"],
            };
            labels[label].is_null() && canonical.iter().all(|other| labels[*other].is_null())
        });
        Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            revision: InjectionStatus::from_pod(pod).map(|status| status.revision().to_owned()),
            state: PodState::of_pod(pod),
            sidecar: Sidecar::of_pod(pod),
            suggestions: missing
                .map(|label| format!("add '{label}' label to pod for Istio telemetry."))
                .collect(),
            ports,
            capture,
            answers,
            services,
            warnings: warned,
        }
    }

    /// Returns the text for people.
    pub(super) fn text(&self) -> String {
        let dot = if self.namespace.is_empty() { "" } else { "." };
        let mut text = format!("{}: {}{dot}{}\n", self.kind, self.name, self.namespace);
        let mut line = |words: String| {
            let _ = writeln!(text, "   {words}");
        };
        if let Some(revision) = self.revision.as_deref().filter(|revision| !revision.is_empty()) {
            line(format!("Pod Revision: {revision}"));
        }
        self.state.iter().flat_map(PodState::lines).for_each(&mut line);
        let ports = self.ports.iter().map(|port| {
            let transport = match &*port.transport {
                "TCP" => String::new(),
                other => format!("/{other}"),
            };
            format!("{}{transport} ({})", port.number, port.container)
        });
        let ports = ports.collect::<Vec<_>>().join(", ");
        line(format!("Pod Ports: {}", if ports.is_empty() { "none declared" } else { &ports }));
        match &self.sidecar {
            Some(Sidecar { image, is_native }) => {
                let list = if *is_native { "native sidecar" } else { "container" };
                line(format!("Sidecar: {list} {PROXY}, image {image}"));
            }
            None => line("Sidecar: none".to_owned()),
        }
        for (title, lines) in [("Suggestion", &self.suggestions), ("Warning", &self.warnings)] {
            for words in lines {
                let _ = writeln!(text, "{title}: {words}");
            }
        }
        for service in &self.services {
            let _ = writeln!(text, "{RULER}\nService: {}", service.name);
            for port in &service.ports {
                let target = port.target.map_or_else(|| "?".to_owned(), |it| it.to_string());
                let protocol =
                    if port.protocol.is_empty() { &port.transport } else { &port.protocol };
                let protocol = protocol.to_uppercase();
                let space = if port.name.is_empty() { "" } else { " " };
                let _ = writeln!(
                    text,
                    "   Port: {}{space}{}/{protocol} targets pod port {target}",
                    port.name, port.number
                );
            }
        }
        let _ = writeln!(text, "{RULER}");
        match &self.capture {
            Err(reason) => {
                let _ = writeln!(text, "Capture: none: {reason}");
            }
            Ok(capture) => text.push_str(&self.capture_text(capture)),
        }
        text
    }

    fn capture_text(&self, capture: &Capture) -> String {
        let source = match &capture.source {
            CaptureSource::InitContainer(name) => format!("init container {name}"),
            CaptureSource::CaptureRequest | CaptureSource::CniPlugin => "CNI plugin".to_owned(),
        };
        let families = capture.config.families().iter().map(ToString::to_string);
        let families = families.collect::<Vec<_>>().join(" and ");
        let mut text = format!("Capture: by {source}, {}, {families}\n", mode(capture));
        for note in &capture.notes {
            let _ = writeln!(text, "   Note: {note}");
        }
        let row =
            |answer: &Answer| [answer.packet.words.clone(), answer.result(), answer.setting()];
        let rows: Vec<_> = self.answers.iter().map(row).collect();
        for line in table(&["PACKET", "RESULT", "BECAUSE OF"], &rows).lines() {
            let _ = writeln!(text, "   {line}");
        }
        text
    }

    /// Returns the description for programs.
    pub(super) fn json(&self) -> Value {
        let ports = self.ports.iter().map(|port| {
            json!({
                "port": port.number,
                "name": port.name,
                "container": port.container,
                "protocol": port.transport,
            })
        });
        let services = self.services.iter().map(|service| {
            let ports = service.ports.iter().map(|port| {
                json!({
                    "name": port.name,
                    "port": port.number,
                    "protocol": port.transport,
                    "appProtocol": port.protocol,
                    "targetPort": port.target,
                })
            });
            json!({"name": service.name, "ports": ports.collect::<Value>()})
        });
        json!({
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "revision": self.revision,
            "state": self.state.as_ref().map(PodState::json),
            "ports": ports.collect::<Value>(),
            "sidecar": self.sidecar.as_ref().map(|sidecar| json!({
                "image": sidecar.image,
                "native": sidecar.is_native,
            })),
            "services": services.collect::<Value>(),
            "suggestions": self.suggestions,
            "warnings": self.warnings,
            "capture": self.capture.as_ref().map_or(Value::Null, |capture| json!({
                "source": match &capture.source {
                    CaptureSource::InitContainer(name) => name.as_str(),
                    CaptureSource::CaptureRequest | CaptureSource::CniPlugin => "CNI plugin",
                },
                "mode": mode(capture),
                "families": capture.config.families().iter().map(ToString::to_string)
                    .collect::<Vec<_>>(),
                "environment": capture.command.environment,
                "notes": capture.notes,
                "packets": self.answers.iter().map(|one| one.json(capture)).collect::<Value>(),
            })),
            "notCaptured": self.capture.as_ref().err(),
        })
    }
}

impl Sidecar {
    fn of_pod(pod: &Value) -> Option<Self> {
        let (list, _) = find_proxy(pod)?;
        let image = proxy(pod)?["image"].as_str().unwrap_or_default().to_owned();
        Some(Self { image, is_native: list == INIT_CONTAINERS })
    }
}

fn mode(capture: &Capture) -> &'static str {
    if capture.plan.tproxy_routing.is_some() { "TPROXY" } else { "REDIRECT" }
}

const RULER: &str = "--------------------";
