//! Rules for DNS capture.
//!
//! The proxy answers on its own port and queries the servers itself. A UDP client may reuse a port
//! that the proxy used shortly before, and connection tracking would merge the two flows. So
//! queries of the proxy and of its clients are tracked in separate zones. Answers are not: a rule
//! cannot tell them from answers to queries that the pod forwards, which are in no zone.

use super::rule::{Chain, Field, Match, Origin, Rule, Table, Verdict, Zone, ZoneDirection};
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
        for (mut matches, origin) in to_servers(config) {
            matches.push(Match::is(Field::DestinationPort(protocol, server_port())));
            let verdict = Verdict::RedirectTo(Port::DNS_PROXY);
            rules.push(Rule { table: Table::Nat, chain: Chain::Dns, matches, verdict, origin });
        }
    }
    rules
}

/// Adds the rules that track the proxy's queries apart from its clients'.
pub(super) fn tracking_rules(config: &Config, rules: &mut Vec<Rule>) {
    if config.dns.is_none() {
        return;
    }
    let mut add = |chain, matches, verdict, origin| {
        rules.push(Rule { table: Table::Raw, chain, matches, verdict, origin });
    };
    let track_in = |zone| Verdict::TrackIn(zone, ZoneDirection::Original);
    let query = || Match::is(Field::DestinationPort(Protocol::Udp, server_port()));
    let dns = Origin::Flag(Flag::RedirectDns);
    add(Chain::Output, captured_families(config), Verdict::Jump(Chain::Dns), dns);
    let users = AnyOf::several(config.proxy_uids.iter().map(|uid| (*uid).into()));
    let groups = AnyOf::several(config.proxy_gids.iter().copied());
    for (owner, flag) in [
        (users.map(Field::OwnerUid), Flag::ProxyUid),
        (groups.map(Field::OwnerGid), Flag::ProxyGid),
    ] {
        let Some(owner) = owner.map(Match::is) else { continue };
        add(Chain::Dns, vec![query(), owner], track_in(Zone::Upstream), Origin::Flag(flag));
    }
    for (mut matches, origin) in to_servers(config) {
        matches.push(query());
        add(Chain::Dns, matches, track_in(Zone::Downstream), origin);
    }
}

/// Returns the matches for each server, with their origin.
fn to_servers(config: &Config) -> Vec<(Vec<Match>, Origin)> {
    match &config.dns {
        None => Vec::new(),
        Some(NameServers::All) => vec![(Vec::new(), Origin::Flag(Flag::CaptureAllDns))],
        Some(NameServers::Only(servers)) => {
            let servers: Vec<Cidr> = servers.iter().copied().map(Cidr::host).collect();
            let matches = |servers| vec![Match::is(Field::Destination(servers))];
            per_family(config, &servers)
                .map(|servers| (matches(servers), Origin::Flag(Flag::RedirectDns)))
                .collect()
        }
    }
}

fn server_port() -> AnyOf<PortRange> {
    AnyOf::one(SERVER_PORT)
}
