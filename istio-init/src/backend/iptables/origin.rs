//! Setting that an iptables rule without comment comes from. Like Istio's, most rules have no
//! comment.

use crate::args::env::Variable;
use crate::args::flags::Flag;
use crate::plan::{Chain, Field, Match, Origin, Table, Verdict};
use crate::types::port::{Port, PortRange};

/// Returns the setting that a plan gives to a rule like this.
pub(super) fn default_origin(
    table: Table,
    chain: Chain,
    matches: &[Match],
    verdict: Verdict,
) -> Origin {
    match chain {
        Chain::Prerouting | Chain::Output => builtin_chain_origin(table, matches, verdict),
        Chain::Inbound => inbound_origin(table, matches, verdict),
        Chain::Outbound => outbound_origin(matches, verdict),
        Chain::Dns => owner(matches).unwrap_or_else(|| dns_origin(matches)),
        Chain::Redirect => Origin::Flag(Flag::EnvoyPort),
        Chain::InRedirect | Chain::Tproxy => Origin::Flag(Flag::InboundCapturePort),
        Chain::Divert => Origin::Flag(Flag::InboundTproxyMark),
        Chain::Drop => Origin::Flag(Flag::DropInvalid),
    }
}

fn builtin_chain_origin(table: Table, matches: &[Match], verdict: Verdict) -> Origin {
    match verdict {
        Verdict::Jump(Chain::Outbound) => Origin::Capture,
        Verdict::Jump(Chain::Inbound) if table == Table::Raw => Origin::Flag(Flag::RedirectDns),
        Verdict::Jump(Chain::Inbound) => Origin::Flag(Flag::InboundPorts),
        Verdict::Jump(Chain::Dns) => Origin::Flag(Flag::RedirectDns),
        Verdict::Jump(Chain::Drop) => Origin::Flag(Flag::DropInvalid),
        Verdict::Jump(Chain::Redirect) if has(matches, is_port) => {
            Origin::Flag(Flag::OutboundPorts)
        }
        Verdict::Jump(Chain::Redirect) => Origin::Flag(Flag::KubeVirtInterfaces),
        Verdict::SetPacketMark(_) => owner(matches).unwrap_or(Origin::Loopback),
        Verdict::SaveMark | Verdict::RestoreMark => Origin::Flag(Flag::InboundTproxyMark),
        _ if has(matches, |field| matches!(field, Field::PacketMark(_))) => {
            Origin::Flag(Flag::InboundTproxyMark)
        }
        _ => Origin::Flag(Flag::ExcludeInterfaces),
    }
}

fn inbound_origin(table: Table, matches: &[Match], verdict: Verdict) -> Origin {
    let tunnel = PortRange::from(Port::TUNNEL);
    let is_to_tunnel = |field: &Field| matches!(field, Field::DestinationPort(_, ports) if *ports.first() == tunnel);
    match verdict {
        _ if table == Table::Raw => dns_origin(matches),
        Verdict::Return if has(matches, is_to_tunnel) => Origin::Flag(Flag::InboundTunnelPort),
        Verdict::Return if has(matches, is_port) => Origin::Flag(Flag::LocalExcludePorts),
        Verdict::Return if has(matches, |it| matches!(it, Field::InInterface(_))) => {
            Origin::Loopback
        }
        Verdict::Return => Origin::Flag(Flag::InboundTproxyMark),
        _ => Origin::Flag(Flag::InboundPorts),
    }
}

fn outbound_origin(matches: &[Match], verdict: Verdict) -> Origin {
    let has_ports = has(matches, is_port);
    let is_loopback = |field: &Field| match field {
        Field::Destination(ranges) => ranges.first().address().is_loopback(),
        Field::OutInterface(_) | Field::Source(_) => true,
        _ => false,
    };
    match verdict {
        Verdict::Jump(Chain::Dns) => Origin::Flag(Flag::RedirectDns),
        Verdict::Jump(Chain::Redirect) if has_ports => Origin::Flag(Flag::OutboundPorts),
        Verdict::Jump(Chain::Redirect) => Origin::Flag(Flag::ServiceCidr),
        Verdict::Jump(_) => owner(matches).unwrap_or(Origin::Loopback),
        _ if has(matches, is_loopback) => Origin::Loopback,
        _ if has(matches, |field| matches!(field, Field::Destination(_))) => {
            Origin::Flag(Flag::ServiceExcludeCidr)
        }
        _ => match (owner(matches), has_ports) {
            (Some(_), true) => Origin::Flag(Flag::ExcludeOutboundForUids),
            (Some(owner), false) => owner,
            (None, true) => Origin::Flag(Flag::LocalOutboundPortsExclude),
            (None, false) => Origin::Variable(Variable::OwnerGroups),
        },
    }
}

/// Selects the origin of a DNS rule: one without an address is for all servers.
fn dns_origin(matches: &[Match]) -> Origin {
    let names_server = |field: &Field| matches!(field, Field::Source(_) | Field::Destination(_));
    let names_server = has(matches, names_server);
    Origin::Flag(if names_server { Flag::RedirectDns } else { Flag::CaptureAllDns })
}

/// Returns the setting that names the owner.
fn owner(matches: &[Match]) -> Option<Origin> {
    matches.iter().find_map(|condition| match &condition.field {
        Field::OwnerUid(uids) if uids.first().first() == uids.first().last() => {
            Some(Origin::Flag(Flag::ProxyUid))
        }
        Field::OwnerUid(_) => Some(Origin::Flag(Flag::ExcludeOutboundForUids)),
        Field::OwnerGid(_) if condition.negated => Some(Origin::Variable(Variable::OwnerGroups)),
        Field::OwnerGid(_) => Some(Origin::Flag(Flag::ProxyGid)),
        _ => None,
    })
}

fn is_port(field: &Field) -> bool {
    matches!(field, Field::DestinationPort(..))
}

fn has(matches: &[Match], is_it: impl Fn(&Field) -> bool) -> bool {
    matches.iter().any(|condition| is_it(&condition.field))
}
