//! Rules for DNS capture.
//!
//! The proxy answers on its own port and queries the servers itself. A UDP client may reuse a port
//! that the proxy used shortly before, and connection tracking would merge the two flows. So both
//! directions are tracked in separate zones.

use super::rule::{Chain, Field, Match, Origin, Rule, Table, Verdict, Zone};
use super::{AnyOf, captured_families, per_family};
use crate::args::flags::Flag;
use crate::config::{Config, NameServers};
use crate::types::cidr::Cidr;
use crate::types::port::{Port, PortRange};
use crate::types::protocol::Protocol;

/// The port that name servers listen on.
pub(super) const SERVER_PORT: u16 = 53;

/// Returns the rules that redirect DNS queries, for the chain that the outbound chain jumps to.
/// Empty if there is no server.
pub(super) fn redirection_rules(config: &Config) -> Vec<Rule> {
    let mut rules = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for (mut matches, origin) in to_servers(config, Field::Destination) {
            matches.push(Match::is(Field::DestinationPort(protocol, server_port())));
            let verdict = Verdict::RedirectTo(Port::DNS_PROXY);
            rules.push(Rule { table: Table::Nat, chain: Chain::Dns, matches, verdict, origin });
        }
    }
    rules
}

/// Adds the rules that track both halves apart.
pub(super) fn tracking_rules(config: &Config, rules: &mut Vec<Rule>) {
    if config.dns.is_none() {
        return;
    }
    let mut add = |chain, matches, verdict, origin| {
        rules.push(Rule { table: Table::Raw, chain, matches, verdict, origin });
    };
    let dns = Origin::Flag(Flag::RedirectDns);
    let udp_to = |ports| Match::is(Field::DestinationPort(Protocol::Udp, ports));
    let udp_from = |ports| Match::is(Field::SourcePort(Protocol::Udp, ports));
    add(Chain::Output, captured_families(config), Verdict::Jump(Chain::Dns), dns);
    let users = AnyOf::several(config.proxy_uids.iter().map(|uid| (*uid).into()));
    let groups = AnyOf::several(config.proxy_gids.iter().copied());
    for (owner, flag) in [
        (users.map(Field::OwnerUid), Flag::ProxyUid),
        (groups.map(Field::OwnerGid), Flag::ProxyGid),
    ] {
        let Some(owner) = owner.map(Match::is) else { continue };
        let origin = Origin::Flag(flag);
        let asks = vec![udp_to(server_port()), owner.clone()];
        add(Chain::Dns, asks, Verdict::TrackIn(Zone::Upstream), origin);
        let answers = vec![udp_from(AnyOf::one(Port::DNS_PROXY)), owner];
        add(Chain::Dns, answers, Verdict::TrackIn(Zone::Downstream), origin);
    }
    for (mut matches, origin) in to_servers(config, Field::Destination) {
        matches.push(udp_to(server_port()));
        add(Chain::Dns, matches, Verdict::TrackIn(Zone::Downstream), origin);
    }
    let from_servers = to_servers(config, Field::Source);
    if !from_servers.is_empty() {
        add(Chain::Prerouting, captured_families(config), Verdict::Jump(Chain::Inbound), dns);
    }
    for (mut matches, origin) in from_servers {
        matches.push(udp_from(server_port()));
        add(Chain::Inbound, matches, Verdict::TrackIn(Zone::Upstream), origin);
    }
}

/// Returns the matches for each server, with their origin.
fn to_servers(config: &Config, side: impl Fn(AnyOf<Cidr>) -> Field) -> Vec<(Vec<Match>, Origin)> {
    match &config.dns {
        None => Vec::new(),
        Some(NameServers::All) => vec![(Vec::new(), Origin::Flag(Flag::CaptureAllDns))],
        Some(NameServers::Only(servers)) => {
            let servers: Vec<Cidr> = servers.iter().copied().map(Cidr::host).collect();
            let matches = |servers| vec![Match::is(side(servers))];
            per_family(config, &servers)
                .map(|servers| (matches(servers), Origin::Flag(Flag::RedirectDns)))
                .collect()
        }
    }
}

fn server_port() -> AnyOf<PortRange> {
    AnyOf::one(SERVER_PORT)
}
