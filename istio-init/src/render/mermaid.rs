//! Picture of a pod's capture as Mermaid text, for pages that draw it.

use crate::picture::{LanePath, Picture};

/// Renders a flowchart.
pub fn capture(picture: &Picture) -> String {
    let mut text = ["---\ntitle: ", &picture.title(), "\n---\nflowchart LR\n"].concat();
    text.push_str("  clients([Clients])\n  servers([Servers])\n");
    text.push_str("  subgraph pod [Pod]\n    subgraph sidecar [Sidecar]\n");
    let mut nodes: Vec<String> = Vec::new();
    for lane in &picture.lanes {
        let node = node(lane.path);
        if let Some(port) = lane.path.port()
            && !nodes.contains(&node)
        {
            let name = if matches!(lane.path, LanePath::Dns(_)) { "DNS, port " } else { "port " };
            text.push_str(&["      ", &node, "[", name, &port.to_string(), "]\n"].concat());
            nodes.push(node);
        }
    }
    if picture.lanes.iter().any(|lane| lane.path == LanePath::InboundListener) {
        text.push_str("      own[own ports]\n");
    }
    if nodes.is_empty() {
        text.push_str("      idle[gets no packets]\n");
    }
    text.push_str("    end\n    application[Application]\n  end\n");
    for lane in &picture.lanes {
        let node = node(lane.path);
        let (from, to, next) = match lane.path {
            LanePath::InboundBypass => ("clients", "application", None),
            LanePath::Dropped => ("clients", "dropped([dropped])", None),
            LanePath::InboundListener => ("clients", "own", None),
            LanePath::InboundCaptured(_) => ("clients", &*node, Some("application")),
            LanePath::OutboundCaptured(_) => ("application", &*node, Some("servers")),
            LanePath::Dns(_) => ("application", &*node, None),
            LanePath::Loopback => ("application", "application", None),
            LanePath::OutboundBypass => ("application", "servers", None),
        };
        let line = if lane.path.is_to_proxy() { " -->|" } else { " -.->|" };
        let mut label = String::from("\"");
        escape(&mut label, &lane.words(40));
        let settings = lane.settings();
        if !settings.is_empty() {
            label.push_str("<br/>");
            escape(&mut label, &settings);
        }
        text.push_str(&["  ", from, line, &label, "\"| ", to, "\n"].concat());
        if let Some(next) = next {
            let line = ["  ", to, " --> ", next, "\n"].concat();
            if !text.contains(&line) {
                text.push_str(&line);
            }
        }
    }
    text
}

/// Appends text for a quoted label. Mermaid reads entities with `#` instead of `&`.
pub fn escape(label: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '"' => label.push_str("#quot;"),
            '#' => label.push_str("#35;"),
            '&' => label.push_str("#amp;"),
            '<' => label.push_str("#lt;"),
            '>' => label.push_str("#gt;"),
            '`' => label.push_str("#96;"),
            '\\' => label.push_str("#92;"),
            control if control.is_control() => label.push(' '),
            other => label.push(other),
        }
    }
}

/// Returns the identifier of a listener's node.
fn node(path: LanePath) -> String {
    let port = path.port().map_or_else(String::new, |port| port.to_string());
    ["port", &port].concat()
}
