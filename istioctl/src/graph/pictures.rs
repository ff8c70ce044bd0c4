//! Graph of a mesh as SVG and as Mermaid text.
//!
//! Each port of a service is a row: its callers, the service, its endpoints. So no lines cross.

use std::fmt::Write as _;

use istio_init::render::mermaid::escape;
use istio_init::render::svg::{Svg, fitted};

use super::mesh_graph::MeshGraph;
use super::service_node::{Callers, PortNode, ServiceNode};

/// Renders SVG: a frame for each namespace, a row for each port.
pub(super) fn svg(graph: &MeshGraph) -> String {
    let mut svg = Svg::default();
    svg.text("t", 20, 26, TITLE);
    let mut y = 44;
    for services in graph.services.chunk_by(|one, other| one.namespace == other.namespace) {
        let rows: usize = services.iter().map(|service| service.ports.len().max(1)).sum();
        let rows = u32::try_from(rows).unwrap_or(u32::MAX / ROW);
        svg.rect("pod", [NAMESPACE, y, 600, rows * ROW + 40]);
        let title = format!("Namespace {}", services[0].namespace);
        svg.text("t", NAMESPACE + 16, y + 24, &fitted(&title, 60));
        let mut row = y + 36;
        for service in services {
            let height = ROW * u32::try_from(service.ports.len().max(1)).unwrap_or(1);
            svg.rect("proxy", [SERVICE, row + 4, 190, height - 10]);
            svg.text("t", SERVICE + 12, row + 24, &fitted(&service.name, 19));
            for port in &service.ports {
                draw(&mut svg, service, port, row);
                row += ROW;
            }
            if service.ports.is_empty() {
                row += ROW;
            }
        }
        y += rows * ROW + 56;
    }
    if graph.services.is_empty() {
        svg.text("", 20, y + 20, "The control plane knows no Service.");
        y += 40;
    }
    svg.arrow("in", 20, 70, y + 12);
    svg.text("s", 80, y + 16, "mutual TLS alone");
    svg.arrow("past", 200, 250, y + 12);
    svg.text("s", 260, y + 16, "plain text is accepted, alone or too");
    svg.finish([WIDTH, y + 32], TITLE, &graph.sentences())
}

fn draw(svg: &mut Svg, service: &ServiceNode, port: &PortNode, row: u32) {
    let y = row + ROW / 2 + 4;
    svg.text("", 20, y - 7, port.callers.who());
    if let Some(export) = service.export() {
        svg.text("s", 20, y + 15, &fitted(&export, 32));
    }
    let class = if port.callers == Callers::Sidecars { "in" } else { "past" };
    if port.callers != Callers::NoEndpoint {
        svg.arrow(class, 20, SERVICE, y);
    }
    svg.text("s e", SERVICE - 14, y + 15, port.callers.protection());
    svg.text("e", SERVICE - 14, y - 7, &port.title());
    let endpoints = port.workload_words();
    if endpoints.is_empty() {
        svg.text("s", SERVICE + 214, y + 4, "no endpoint");
        return;
    }
    // In the colour of the box, which says nothing about protection.
    svg.arrow("box", SERVICE + 190, SERVICE + 230, y);
    svg.rect("box", [SERVICE + 230, y - 17, 180, 34]);
    svg.text("m", SERVICE + 320, y + 4, &fitted(&endpoints, 24));
}

/// Renders a flowchart.
pub(super) fn mermaid(graph: &MeshGraph) -> String {
    let mut text = String::from("flowchart LR\n");
    let mut edges = String::new();
    let mut callers: Vec<String> = Vec::new();
    let mut number = 0;
    let groups = graph.services.chunk_by(|one, other| one.namespace == other.namespace);
    for (group, services) in groups.enumerate() {
        let title = quoted(&format!("Namespace {}", services[0].namespace));
        let _ = writeln!(text, "  subgraph namespace{group} [{title}]");
        for service in services {
            let id = format!("service{number}");
            number += 1;
            let _ = writeln!(text, "    {id}[{}]", quoted(&service.name));
            for (index, port) in service.ports.iter().enumerate() {
                let endpoints = port.workload_words();
                if endpoints.is_empty() {
                    continue;
                }
                let _ = writeln!(text, "    {id}p{index}([{}])", quoted(&endpoints));
                let _ = writeln!(edges, "  {id} --> {id}p{index}");
                let who = service.callers(port);
                let caller = callers.iter().position(|known| *known == who);
                let caller = caller.unwrap_or_else(|| {
                    callers.push(who);
                    callers.len() - 1
                });
                let label = format!("{}, {}", port.title(), port.callers.protection());
                let line = if port.callers == Callers::Sidecars { "-->" } else { "-.->" };
                let _ = writeln!(edges, "  callers{caller} {line}|{}| {id}", quoted(&label));
            }
        }
        text.push_str("  end\n");
    }
    for (index, who) in callers.iter().enumerate() {
        let _ = writeln!(text, "  callers{index}([{}])", quoted(who));
    }
    text + &edges
}

fn quoted(text: &str) -> String {
    let mut label = String::from("\"");
    escape(&mut label, text);
    label + "\""
}

const TITLE: &str = "Who may call which service";
const WIDTH: u32 = 870;
const ROW: u32 = 52;
/// Left edges of the namespaces and of their services.
const NAMESPACE: u32 = 250;
const SERVICE: u32 = 420;
