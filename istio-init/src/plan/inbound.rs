//! Rules for connections to this pod.

use super::rule::{Chain, Field, Match, Origin, Rule, Table, Verdict};
use super::{AnyOf, captured_families};
use crate::args::flags::Flag;
use crate::config::{Config, Inbound, Interception};
use crate::types::port::PortRange;
use crate::types::protocol::Protocol;

/// Adds the rules for connections to this pod, and those to both listeners.
pub(super) fn rules(config: &Config, rules: &mut Vec<Rule>) {
    let mut add = |chain, matches, verdict, flag| {
        let origin = Origin::Flag(flag);
        rules.push(Rule { table: Table::Nat, chain, matches, verdict, origin });
    };
    let tunnel = vec![tcp_to(AnyOf::one(config.tunnel_port))];
    add(Chain::Inbound, tunnel, Verdict::Return, Flag::InboundTunnelPort);
    let to_outbound = Verdict::RedirectTo(config.outbound_port);
    add(Chain::Redirect, vec![tcp()], to_outbound, Flag::EnvoyPort);
    let to_inbound = Verdict::RedirectTo(config.inbound_port);
    add(Chain::InRedirect, vec![tcp()], to_inbound, Flag::InboundCapturePort);
    if config.inbound == Inbound::None || config.interception != Interception::Redirect {
        return;
    }
    let mut arriving = captured_families(config);
    arriving.push(tcp());
    add(Chain::Prerouting, arriving, Verdict::Jump(Chain::Inbound), Flag::InboundPorts);
    let capture = Verdict::Jump(Chain::InRedirect);
    match &config.inbound {
        Inbound::None => {}
        Inbound::AllBut(excluded) => {
            if let Some(ports) = AnyOf::several(excluded.iter().copied()) {
                let matches = vec![tcp_to(ports)];
                add(Chain::Inbound, matches, Verdict::Return, Flag::LocalExcludePorts);
            }
            add(Chain::Inbound, vec![tcp()], capture, Flag::InboundPorts);
        }
        Inbound::Only(ports) => {
            if let Some(ports) = AnyOf::several(ports.iter().copied()) {
                add(Chain::Inbound, vec![tcp_to(ports)], capture, Flag::InboundPorts);
            }
        }
    }
}

pub(super) fn tcp() -> Match {
    Match::is(Field::Protocol(Protocol::Tcp))
}

pub(super) fn tcp_to(ports: AnyOf<PortRange>) -> Match {
    Match::is(Field::DestinationPort(Protocol::Tcp, ports))
}
