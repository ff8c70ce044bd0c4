//! Listeners.

pub mod inbound;
mod inspectors;
pub mod outbound;

use std::collections::BTreeSet;
use std::net::IpAddr;

use envoy_types::pb::envoy::config::core::v3::TrafficDirection;
use envoy_types::pb::envoy::config::listener::v3::{
    AdditionalAddress, Filter, FilterChain, FilterChainMatch, Listener,
};
use pilot_xds::session::Reference;
use pilot_xds::type_urls::LISTENER;

use super::context::{Context, Origin};
use super::message::{address, number};
use super::{Generator, names};
use inbound::InboundInputs;
use outbound::{OutboundListener, VirtualOutbound};

/// Generator of listeners (LDS).
#[derive(Clone, Copy, Debug)]
pub struct Listeners;

/// Inputs of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenerInputs {
    /// Captured outbound connections.
    VirtualOutbound(VirtualOutbound),
    /// Outbound connections to a port or to a service.
    Outbound(OutboundListener),
    /// Captured inbound connections.
    VirtualInbound(InboundInputs),
}

impl Generator for Listeners {
    type Inputs = ListenerInputs;
    type Message = Listener;
    const TYPE_URL: &'static str = LISTENER;

    fn names(context: &Context<'_>) -> BTreeSet<String> {
        let mut found: BTreeSet<_> = context.outbound().listener_names().collect();
        let virtual_ones = [names::VIRTUAL_OUTBOUND, names::VIRTUAL_INBOUND];
        let captures =
            virtual_ones.into_iter().filter(|name| Self::inputs(context, name).is_some());
        found.extend(captures.map(str::to_owned));
        found
    }

    fn inputs(context: &Context<'_>, name: &str) -> Option<ListenerInputs> {
        match name {
            names::VIRTUAL_OUTBOUND => {
                VirtualOutbound::new(context).map(ListenerInputs::VirtualOutbound)
            }
            names::VIRTUAL_INBOUND => {
                InboundInputs::new(context).map(ListenerInputs::VirtualInbound)
            }
            _ => context.outbound().listener(name).cloned().map(ListenerInputs::Outbound),
        }
    }

    fn build(inputs: &ListenerInputs) -> Listener {
        match inputs {
            ListenerInputs::VirtualOutbound(listener) => listener.build(),
            ListenerInputs::Outbound(listener) => listener.build(),
            ListenerInputs::VirtualInbound(listener) => listener.build(),
        }
    }

    fn references(inputs: &ListenerInputs) -> Vec<Reference> {
        match inputs {
            ListenerInputs::VirtualOutbound(listener) => listener.references(),
            ListenerInputs::Outbound(listener) => listener.references(),
            ListenerInputs::VirtualInbound(listener) => listener.references(),
        }
    }

    fn why(context: &Context<'_>, name: &str) -> BTreeSet<Origin> {
        match name {
            names::VIRTUAL_OUTBOUND => [Origin::mesh()].into(),
            names::VIRTUAL_INBOUND => {
                let services = context.inbound_ports();
                let services = services.filter_map(|it| context.snapshot.service(&it.service));
                let services = services.map(|service| Origin::service(service));
                let own = [Origin::mesh(), context.origin_of_workload()];
                let policies = context.origins_of_modes().chain(context.closed_by().cloned());
                services.chain(own).chain(policies).collect()
            }
            _ => context.outbound().origins(context, name),
        }
    }
}

/// Returns a listener without filters on a port of several addresses.
fn listener(
    name: String,
    addresses: &[IpAddr],
    port: u16,
    direction: TrafficDirection,
) -> Listener {
    let mut addresses = addresses.iter().map(|ip| address(ip, port));
    let first = addresses.next();
    let others = addresses.map(|address| AdditionalAddress {
        address: Some(address),
        ..AdditionalAddress::default()
    });
    Listener {
        name,
        address: first,
        additional_addresses: others.collect(),
        traffic_direction: direction.into(),
        ..Listener::default()
    }
}

fn chain(name: &str, filters: Vec<Filter>) -> FilterChain {
    FilterChain { name: name.to_owned(), filters, ..FilterChain::default() }
}

fn to_port(port: u16) -> FilterChainMatch {
    FilterChainMatch { destination_port: number(port.into()), ..FilterChainMatch::default() }
}
