//! Rules for inbound TPROXY: packets keep their addresses, are marked and routed to the inbound
//! listener.
//!
//! The listener's answers, and the proxy's calls to the application from the client's address, are
//! sent to that address. Their mark routes them back into the pod.

use super::inbound::{tcp, tcp_to};
use super::rule::{Chain, ConnectionState, Field, Match, Origin, Rule, Table, Verdict};
use super::{AnyOf, TproxyRouting, captured_families};
use crate::args::flags::Flag;
use crate::config::{Config, Inbound, Interception};
use crate::types::interface::InterfaceName;
use crate::types::mark::Mark;

/// True if inbound connections are captured by TPROXY.
pub(super) fn is_enabled(config: &Config) -> bool {
    config.inbound != Inbound::None && config.interception != Interception::Redirect
}

/// Returns the routing of marked packets.
pub(super) fn tproxy_routing(config: &Config) -> Option<TproxyRouting> {
    let Interception::Tproxy { mark, table } = config.interception else {
        return None;
    };
    let families = config.families().to_vec();
    is_enabled(config).then_some(TproxyRouting { mark, table, families })
}

/// Adds the rules that route answers to the proxy's calls under the client's address. They precede
/// the exclusion of interfaces: the calls pass loopback, and answers begin at the client's interface.
pub(super) fn answer_rules(config: &Config, rules: &mut Vec<Rule>) {
    if let Some(mut mangle) = Mangle::new(config, rules) {
        mangle.answers();
    }
}

/// Adds the other rules.
pub(super) fn rules(config: &Config, rules: &mut Vec<Rule>) {
    if let Some(mut mangle) = Mangle::new(config, rules) {
        mangle.arriving();
        mangle.inbound();
        mangle.delivery();
        mangle.outbound();
    }
}

/// Rules of the mangle table under construction.
struct Mangle<'a> {
    config: &'a Config,
    /// Mark of the packets that are delivered locally.
    mark: Mark,
    rules: &'a mut Vec<Rule>,
}

impl<'a> Mangle<'a> {
    /// Returns `None` if no rules are needed.
    fn new(config: &'a Config, rules: &'a mut Vec<Rule>) -> Option<Self> {
        match config.interception {
            Interception::Tproxy { mark, .. } if is_enabled(config) => {
                Some(Self { config, mark, rules })
            }
            _ => None,
        }
    }

    /// The proxy's packets under the client's address have the mark; the answers need it too. An
    /// answer may be an ICMP error.
    fn answers(&mut self) {
        let flag = Flag::InboundTproxyMark;
        let calls = vec![tcp(), self.is_marked()];
        self.add(Chain::Prerouting, calls, Verdict::SaveMark, flag);
        let calls = vec![tcp(), over_loopback(), self.is_marked()];
        self.add(Chain::Output, calls, Verdict::Return, flag);
        let answers = vec![Match::is(Field::ConnectionMark(self.mark))];
        self.add(Chain::Output, answers, Verdict::RestoreMark, flag);
    }

    fn arriving(&mut self) {
        // A packet that TPROXY delivers would not reach the outbound listener.
        for name in &self.config.virtual_interfaces {
            let matches = vec![Match::is(Field::InInterface(name.clone()))];
            let flag = Flag::KubeVirtInterfaces;
            self.add(Chain::Prerouting, matches, Verdict::Return, flag);
        }
        let jump = Verdict::Jump(Chain::Inbound);
        self.add(Chain::Prerouting, vec![tcp()], jump, Flag::InboundPorts);
    }

    fn inbound(&mut self) {
        let chain = Chain::Inbound;
        let from_the_proxy = vec![tcp(), self.is_marked()];
        self.add(chain, from_the_proxy, Verdict::Return, Flag::InboundTproxyMark);
        for source in self.config.passthrough_sources() {
            let source = Match::is(Field::Source(AnyOf::one(source)));
            self.add_with_origin(
                chain,
                vec![tcp(), source, from_loopback()],
                Verdict::Return,
                Origin::Loopback,
            );
        }
        let inside_the_pod =
            vec![tcp(), from_loopback(), Match::is_not(Field::PacketMark(Mark::OUTBOUND))];
        self.add_with_origin(chain, inside_the_pod, Verdict::Return, Origin::Loopback);
        let tunnel = vec![tcp_to(AnyOf::one(self.config.tunnel_port))];
        self.add(chain, tunnel, Verdict::Return, Flag::InboundTunnelPort);
        match &self.config.inbound {
            Inbound::None => {}
            Inbound::AllBut(excluded) => {
                if let Some(ports) = AnyOf::several(excluded.iter().copied()) {
                    let matches = vec![tcp_to(ports)];
                    self.add(chain, matches, Verdict::Return, Flag::LocalExcludePorts);
                }
                self.capture(&tcp());
            }
            Inbound::Only(ports) => {
                if let Some(ports) = AnyOf::several(ports.iter().copied()) {
                    self.capture(&tcp_to(ports));
                }
            }
        }
    }

    /// Adds capture rules. An established connection has a socket, so its packets only need
    /// routing.
    fn capture(&mut self, what: &Match) {
        let begun = vec![what.clone(), Match::is(Field::Connection(ConnectionState::Established))];
        let flag = Flag::InboundPorts;
        self.add(Chain::Inbound, begun, Verdict::Jump(Chain::Divert), flag);
        self.add(Chain::Inbound, vec![what.clone()], Verdict::Jump(Chain::Tproxy), flag);
    }

    fn delivery(&mut self) {
        let port = self.config.inbound_port;
        for loopback in self.config.loopbacks() {
            let elsewhere = Match::is_not(Field::Destination(AnyOf::one(loopback)));
            let deliver = Verdict::DeliverTo(port, self.mark);
            let matches = vec![elsewhere, tcp()];
            let flag = Flag::InboundCapturePort;
            self.add(Chain::Tproxy, matches.clone(), deliver, flag);
            // iptables drops packets without a listener. nftables would continue, and so bypass the
            // proxy until it listens.
            self.add(Chain::Tproxy, matches, Verdict::Drop, flag);
        }
        let mark = Verdict::SetPacketMark(self.mark);
        self.add(Chain::Divert, Vec::new(), mark, Flag::InboundTproxyMark);
        self.add(Chain::Divert, Vec::new(), Verdict::Accept, Flag::InboundTproxyMark);
    }

    /// Calls of the proxy to its own pod are handled as inbound. They are the only captured
    /// loopback traffic.
    fn outbound(&mut self) {
        let users = AnyOf::several(self.config.proxy_uids.iter().map(|uid| (*uid).into()));
        let groups = AnyOf::several(self.config.proxy_gids.iter().copied());
        for (owner, flag) in [
            (users.map(Field::OwnerUid), Flag::ProxyUid),
            (groups.map(Field::OwnerGid), Flag::ProxyGid),
        ] {
            let Some(owner) = owner else { continue };
            for loopback in self.config.loopbacks() {
                let elsewhere = Match::is_not(Field::Destination(AnyOf::one(loopback)));
                let matches = vec![elsewhere, tcp(), over_loopback(), Match::is(owner.clone())];
                let mark = Verdict::SetPacketMark(Mark::OUTBOUND);
                self.add(Chain::Output, matches, mark, flag);
            }
        }
    }

    fn is_marked(&self) -> Match {
        Match::is(Field::PacketMark(self.mark))
    }

    fn add(&mut self, chain: Chain, matches: Vec<Match>, verdict: Verdict, flag: Flag) {
        self.add_with_origin(chain, matches, verdict, Origin::Flag(flag));
    }

    fn add_with_origin(
        &mut self,
        chain: Chain,
        matches: Vec<Match>,
        verdict: Verdict,
        origin: Origin,
    ) {
        let mut all = if chain.base(Table::Mangle).is_some() {
            captured_families(self.config)
        } else {
            Vec::new()
        };
        all.extend(matches);
        self.rules.push(Rule { table: Table::Mangle, chain, matches: all, verdict, origin });
    }
}

fn over_loopback() -> Match {
    Match::is(Field::OutInterface(InterfaceName::loopback()))
}

fn from_loopback() -> Match {
    Match::is(Field::InInterface(InterfaceName::loopback()))
}
