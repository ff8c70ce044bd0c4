//! Differences that are stated in `docs/differences/pilot-discovery.md`.

use std::collections::BTreeSet;

/// Control plane that alone says a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sender {
    Istiod,
    Ours,
}

/// Stated difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    pub(crate) sender: Sender,
    pub(crate) what: &'static str,
    /// True for a fact for a proxy.
    is: fn(proxy: &str, fact: &str) -> bool,
}

/// Facts that one of both says alone.
pub(crate) fn between<'a>(
    istiod: &'a BTreeSet<String>,
    ours: &'a BTreeSet<String>,
) -> impl Iterator<Item = (Sender, &'a str)> {
    let istiods = istiod.difference(ours).map(|fact| (Sender::Istiod, fact.as_str()));
    istiods.chain(ours.difference(istiod).map(|fact| (Sender::Ours, fact.as_str())))
}

/// Difference that a fact belongs to.
pub(crate) fn stated(sender: Sender, proxy: &str, fact: &str) -> Option<&'static Difference> {
    DIFFERENCES.iter().find(|it| it.sender == sender && (it.is)(proxy, fact))
}

/// All stated differences.
pub(crate) const DIFFERENCES: &[Difference] = &[
    ours("clusters and routes of aliases of unknown hosts", |_, fact| fact.contains("ext.shop")),
    istiod("what is repeated", |_, fact| fact.contains(": repeats ")),
    ours("what is repeated", |_, fact| fact.contains(": repeats ")),
    istiod("client affinity", |_, fact| is_policy_of(fact, "LeastRequest")),
    ours("client affinity", |_, fact| is_policy_of(fact, "RingHash")),
    istiod("mutual TLS with pods that capture nothing", |proxy, fact| {
        captures(proxy) && fact.contains("off.shop") && fact.contains("TLS")
    }),
    ours("mutual TLS with pods that capture nothing", |proxy, fact| {
        proxy == "gateway" && fact.starts_with("endpoints") && fact.contains("off.shop")
    }),
    istiod("addresses of other families", |proxy, fact| {
        proxy != "dual" && (fact.contains("fd00::") || fact.contains("fd96::"))
    }),
    ours("endpoint per family", |proxy, fact| {
        proxy == "dual" && fact.starts_with("endpoints") && fact.contains("fd00::")
    }),
    ours("HTTP version of the application", |_, fact| {
        fact.starts_with("cluster inbound|") && fact.ends_with("the client's HTTP")
    }),
    ours("HTTP version of undeclared ports at gateways", |proxy, fact| {
        proxy == "gateway" && fact.ends_with("the client's HTTP")
    }),
    istiod("source of connections under TPROXY", |proxy, fact| {
        proxy == "tproxy" && fact.ends_with(": from 127.0.0.6")
    }),
    istiod("transparent outbound listener", |proxy, fact| {
        proxy == "tproxy" && fact == "listener virtualOutbound: transparent"
    }),
    istiod("TCP without capture", |proxy, fact| {
        let is_listener = fact.starts_with("listener 127.0.0.1_");
        let is_route = fact.starts_with("route ") && fact.contains(".svc.cluster.local:");
        !captures(proxy) && (is_listener || is_route)
    }),
    istiod("inbound passthrough without capture", |proxy, fact| {
        !captures(proxy) && fact.starts_with("cluster InboundPassthroughCluster")
    }),
    istiod("headless services without capture", |proxy, fact| {
        !captures(proxy) && is_headless(fact)
    }),
    ours("headless services without capture", |proxy, fact| !captures(proxy) && is_headless(fact)),
    ours("each pod of a headless service decides about mutual TLS", |_, fact| {
        fact.starts_with("cluster") && is_headless(fact)
    }),
    ours("listeners of pods for HTTP", |proxy, fact| {
        let is_pods = ["listener 10.0.0.", "listener fd00::"].iter().any(|it| fact.starts_with(it));
        captures(proxy) && (is_pods || is_route_of_pods(fact))
    }),
    ours("chains of STRICT that are those of PERMISSIVE", |_, fact| {
        fact.starts_with("listener virtualInbound: ") && fact.contains(" tls istio")
    }),
    istiod("ports without mutual TLS", |proxy, fact| is_disabled(proxy, fact, "plaintext")),
    ours("ports without mutual TLS", |proxy, fact| is_disabled(proxy, fact, "anything")),
];

fn is_policy_of(fact: &str, policy: &str) -> bool {
    fact.starts_with("cluster") && fact.contains("sticky.shop") && fact.ends_with(policy)
}

fn captures(proxy: &str) -> bool {
    proxy != "uncaptured"
}

fn is_route_of_pods(fact: &str) -> bool {
    let names = ["nodes", "mix", "off", "lonely"];
    names.iter().any(|name| fact.starts_with(&format!("route {name}.shop.svc.cluster.local:")))
}

fn is_headless(fact: &str) -> bool {
    ["nodes", "mix", "off", "lonely"].iter().any(|name| fact.contains(&format!("||{name}.shop")))
}

/// True for chains of the server's port whose mode is `DISABLE`.
fn is_disabled(proxy: &str, fact: &str, transport: &str) -> bool {
    proxy == "server" && fact.contains(&format!("virtualInbound: 3306 {transport} "))
}

const fn istiod(what: &'static str, is: fn(&str, &str) -> bool) -> Difference {
    Difference { sender: Sender::Istiod, what, is }
}

const fn ours(what: &'static str, is: fn(&str, &str) -> bool) -> Difference {
    Difference { sender: Sender::Ours, what, is }
}
