//! Listener filters: destinations of captured connections, and detection of protocols.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::listener_filter_chain_match_predicate::{
    MatchSet, Rule,
};
use envoy_types::pb::envoy::config::listener::v3::{
    ListenerFilter, ListenerFilterChainMatchPredicate as Predicate, listener_filter,
};
use envoy_types::pb::envoy::extensions::filters::listener::http_inspector::v3::HttpInspector;
use envoy_types::pb::envoy::extensions::filters::listener::original_dst::v3::OriginalDst;
use envoy_types::pb::envoy::extensions::filters::listener::original_src::v3::OriginalSrc;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3::TlsInspector;
use envoy_types::pb::envoy::r#type::v3::Int32Range;
use prost::{Message, Name};

use super::super::message::any;

/// Ports whose connections an inspector reads. Inspection delays a connection until the client has
/// sent something, so it must not read ports of protocols in which the server speaks first.
#[derive(Clone, Debug, Default)]
pub(super) struct InspectedPorts {
    /// True if ports without an entry are inspected.
    pub(super) others: bool,
    pub(super) inspected: BTreeSet<u16>,
    pub(super) skipped: BTreeSet<u16>,
}

impl InspectedPorts {
    /// Returns the inspector; `None` if it would read no port.
    pub(super) fn filter(&self, inspector: ListenerFilter) -> Option<ListenerFilter> {
        let filter_disabled = match (self.others, self.inspected.is_empty()) {
            (true, _) => any_of(&self.skipped),
            (false, false) => any_of(&self.inspected).map(not),
            (false, true) => return None,
        };
        Some(ListenerFilter { filter_disabled, ..inspector })
    }
}

fn not(predicate: Predicate) -> Predicate {
    Predicate { rule: Some(Rule::NotMatch(Box::new(predicate))) }
}

/// Returns a predicate that is true on these ports. Envoy wants two members of a set at least.
fn any_of(ports: &BTreeSet<u16>) -> Option<Predicate> {
    let on_port = |port: &u16| {
        let start = i32::from(*port);
        Predicate { rule: Some(Rule::DestinationPortRange(Int32Range { start, end: start + 1 })) }
    };
    let mut rules: Vec<_> = ports.iter().map(on_port).collect();
    match rules.len() {
        0 | 1 => rules.pop(),
        _ => Some(Predicate { rule: Some(Rule::OrMatch(MatchSet { rules })) }),
    }
}

pub(super) fn original_destination() -> ListenerFilter {
    filter("envoy.filters.listener.original_dst", &OriginalDst::default())
}

/// Gives connections to the application the client's address. The mark tells the pod's rules the
/// connection from the client's own.
pub(super) fn original_source() -> ListenerFilter {
    let source = OriginalSrc { mark: TPROXY_MARK, ..OriginalSrc::default() };
    filter("envoy.filters.listener.original_src", &source)
}

pub(super) fn tls_inspector() -> ListenerFilter {
    filter("envoy.filters.listener.tls_inspector", &TlsInspector::default())
}

pub(super) fn http_inspector() -> ListenerFilter {
    filter("envoy.filters.listener.http_inspector", &HttpInspector::default())
}

fn filter<M: Message + Name>(name: &str, config: &M) -> ListenerFilter {
    ListenerFilter {
        name: name.to_owned(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(config))),
        ..ListenerFilter::default()
    }
}

/// Mark of connections from the proxy, which `istio-init` matches.
const TPROXY_MARK: u32 = 1337;

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(others: bool, inspected: &[u16], skipped: &[u16]) -> Option<&'static str> {
        let ports = InspectedPorts {
            others,
            inspected: inspected.iter().copied().collect(),
            skipped: skipped.iter().copied().collect(),
        };
        let filter = ports.filter(tls_inspector())?;
        Some(match filter.filter_disabled.and_then(|predicate| predicate.rule) {
            None => "always",
            Some(Rule::DestinationPortRange(_)) => "except one",
            Some(Rule::OrMatch(_)) => "except some",
            Some(Rule::NotMatch(_)) => "only",
            Some(_) => "another",
        })
    }

    #[test]
    fn inspectors_read_the_ports_that_need_them() {
        assert_eq!(shape(true, &[], &[]), Some("always"));
        assert_eq!(shape(true, &[1], &[2]), Some("except one"));
        assert_eq!(shape(true, &[], &[2, 3]), Some("except some"));
        assert_eq!(shape(false, &[1], &[2]), Some("only"));
        assert_eq!(shape(false, &[], &[2]), None);
    }
}
