//! Picture of a pod's capture as SVG.
//!
//! The network is on the left, the application on the right, the sidecar between them. Packets past
//! the sidecar have their lanes above and below it, so that no lines cross.

use super::svg::{Svg, fitted};
use crate::picture::{Lane, LanePath, MORE, Picture};

/// Renders the picture.
pub fn svg(picture: &Picture) -> String {
    let mut svg = Svg::default();
    let layout = Layout::new(picture);
    let (title, bottom) = (picture.title(), layout.bottom);
    let height = bottom - TOP;
    svg.text("t", 20, 26, &title);
    svg.rect("pod", [170, TOP, 890, height]);
    svg.rect("box", [20, TOP, 110, height]);
    svg.rect("box", [APPLICATION, TOP + 36, 130, height - 52]);
    let middle = TOP + height / 2;
    svg.text("t m", 75, middle, "Network");
    svg.text("t m", APPLICATION + 65, middle, "Application");
    svg.text("t m", APPLICATION + 65, TOP + 24, "Pod");
    let [top, end] = layout.sidecar;
    svg.rect("proxy", [SIDECAR[0], top, SIDECAR[1] - SIDECAR[0], end - top]);
    svg.text("t m", SIDECAR_MIDDLE, top + 20, "Sidecar");
    if !picture.is_capturing() {
        svg.text("s m", SIDECAR_MIDDLE, top + 36, "gets no packets");
    }
    for (words, y) in layout.headings {
        svg.text("t", LEFT, y, words);
    }
    for (lane, y) in layout.lanes {
        draw(&mut svg, picture, lane, y);
    }
    let legend = bottom + 24;
    svg.arrow("in", 170, 220, legend);
    svg.text("s", 230, legend + 4, "to or through the sidecar");
    svg.arrow("past", 390, 440, legend);
    svg.text("s", 450, legend + 4, "past the sidecar");
    if picture.lanes.iter().any(|lane| lane.path == LanePath::Dropped) {
        svg.barred(580, 624, legend);
        svg.text("s", 640, legend + 4, "dropped");
    }
    let sentences: Vec<String> = picture.lanes.iter().map(Lane::sentence).collect();
    svg.finish([1080, bottom + 44], &title, &sentences.join(" "))
}

/// Vertical positions.
struct Layout<'a> {
    headings: Vec<(&'static str, u32)>,
    lanes: Vec<(&'a Lane, u32)>,
    /// Top and bottom of the sidecar.
    sidecar: [u32; 2],
    /// Bottom of the pod.
    bottom: u32,
}

impl<'a> Layout<'a> {
    fn new(picture: &'a Picture) -> Self {
        let mut layout = Self {
            headings: Vec::from([("Inbound", TOP + 26)]),
            lanes: Vec::new(),
            sidecar: [0, 0],
            bottom: TOP + 40,
        };
        for lane in &picture.lanes {
            let is_captured = lane.path.is_to_proxy();
            let is_first_outbound = !lane.path.is_inbound() && layout.headings.len() == 1;
            let has_begun = layout.sidecar[0] > 0;
            if !has_begun && (is_captured || is_first_outbound) {
                layout.sidecar = [layout.bottom; 2];
                layout.bottom += if is_captured { 28 } else { 60 };
                layout.sidecar[1] = layout.bottom - 12;
            }
            if is_first_outbound {
                layout.bottom += 14;
                layout.headings.push(("Outbound", layout.bottom + 10));
                layout.bottom += 26;
            }
            layout.lanes.push((lane, layout.bottom + 18));
            layout.bottom += LANE;
            if is_captured {
                layout.sidecar[1] = layout.bottom - 6;
            }
        }
        layout.bottom += 8;
        layout
    }
}

fn draw(svg: &mut Svg, picture: &Picture, lane: &Lane, y: u32) {
    let dropped = if lane.path == LanePath::Dropped { ", dropped" } else { "" };
    let label = |svg: &mut Svg, class: &str, x, most| {
        // A single value may be longer; the description has them all.
        let words = fitted(&(lane.words(most) + dropped), most + MORE);
        svg.text(class, x, y - 7, &words);
        let settings = lane.settings();
        let settings = if settings.is_empty() { "no setting captures it" } else { &settings };
        svg.text(&["s ", class].concat(), x, y + 15, settings);
    };
    let port = |svg: &mut Svg, name: &str| {
        let port = lane.path.port().map_or_else(String::new, |port| port.to_string());
        svg.text("m", SIDECAR_MIDDLE, y + 4, &[name, &port].concat());
    };
    match lane.path {
        LanePath::InboundBypass => {
            svg.arrow("past", NETWORK, APPLICATION, y);
            label(svg, "", LEFT, WIDE);
        }
        LanePath::Dropped => {
            svg.barred(NETWORK, 164, y);
            label(svg, "", LEFT, NARROW);
        }
        LanePath::InboundListener => {
            svg.arrow("in", NETWORK, SIDECAR[0], y);
            label(svg, "", LEFT, NARROW);
            port(svg, "its own ports");
        }
        LanePath::InboundCaptured(_) => {
            svg.arrow("in", NETWORK, SIDECAR[0], y);
            svg.arrow("in", SIDECAR[1], APPLICATION, y);
            label(svg, "", LEFT, NARROW);
            port(svg, "port ");
            if picture.keeps_addresses {
                svg.text("s e", RIGHT, y - 7, "from the client's address");
            }
        }
        LanePath::OutboundCaptured(_) => {
            svg.arrow("in", APPLICATION, SIDECAR[1], y);
            svg.arrow("in", SIDECAR[0], NETWORK, y);
            label(svg, "e", RIGHT, NARROW);
            port(svg, "port ");
            let outbound = |lane: &&Lane| matches!(lane.path, LanePath::OutboundCaptured(_));
            if picture.lanes.iter().find(outbound) == Some(lane) {
                for (words, y) in picture.proxy_words(OWNERS).iter().zip([y - 7, y + 15]) {
                    svg.text("s", LEFT, y, words);
                }
            }
        }
        LanePath::Dns(_) => {
            svg.arrow("in", APPLICATION, SIDECAR[1], y);
            label(svg, "e", RIGHT, NARROW);
            port(svg, "DNS, port ");
        }
        LanePath::Loopback => {
            svg.path("past", &["M910 ", &y.to_string(), "h-80q-12 0-12 6t12 6"].concat());
            svg.arrow("past", 830, APPLICATION, y + 12);
            svg.text("e", 800, y + 4, &lane.words(NARROW));
            svg.text("s e", 800, y + 18, "over the loopback interface");
        }
        LanePath::OutboundBypass => {
            svg.arrow("past", APPLICATION, NETWORK, y);
            label(svg, "e", RIGHT, WIDE);
        }
    }
}

const TOP: u32 = 44;
const LANE: u32 = 48;
/// Right edge of the network's box.
const NETWORK: u32 = 130;
/// Left and right edge of the sidecar's box.
const SIDECAR: [u32; 2] = [470, 600];
const SIDECAR_MIDDLE: u32 = 535;
/// Left edge of the application's box.
const APPLICATION: u32 = 910;
/// Labels start here, or end there.
const LEFT: u32 = 186;
const RIGHT: u32 = 896;
/// Characters that fit into a label beside the sidecar, and along the whole pod.
const NARROW: usize = 28;
const WIDE: usize = 84;
/// Characters of small text that fit beside the sidecar.
const OWNERS: usize = 44;
