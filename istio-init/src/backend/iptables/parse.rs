//! Parser of listed iptables rules: the reverse of `render::iptables`.
//!
//! Understands the rules of this program and of Istio's. A foreign rule is left out in the kernel's
//! chains, and reported in own chains unless a plan can express it.

use std::str::FromStr;

use super::listing::{Listing, is_entry_rule, mark, words};
use super::origin::default_origin;
use crate::plan::{
    AnyOf, Chain, ConnectionState, Field, Match, Origin, Rule, Table, Verdict, Zone, ZoneDirection,
};
use crate::render::iptables::{COMMENT, chain_name};
use crate::types::cidr::Cidr;
use crate::types::family::Family;
use crate::types::mark::Mark;
use crate::types::owner::{Gid, Uid, UidRange};
use crate::types::port::PortRange;
use crate::types::protocol::Protocol;
use crate::verify::observed::{ObservedChain, ObservedRule, ObservedTable};
use crate::verify::{Side, base_text, differing};

/// Merges the tables of both families. A rule of both families becomes one rule; a rule of one
/// family gets a condition on that family. Also returns the foreign rules that are left out.
pub(super) fn observed(listings: &[(Family, Listing)]) -> (Vec<ObservedTable>, Vec<String>) {
    let mut left_out = Vec::new();
    let tables = Table::ALL.into_iter().filter_map(|table| {
        let of = |family: Family| {
            let found = listings.iter().find(|(of, it)| (*of, it.table) == (family, table));
            found.map(|(_, listing)| listing).filter(|listing| listing.has_own_rules())
        };
        let (v4, v6) = (of(Family::V4), of(Family::V6));
        if v4.is_none() && v6.is_none() {
            return None;
        }
        let chains = Chain::ALL.into_iter().filter_map(|chain| {
            let mut rules = |listing: Option<&Listing>, family| {
                listing.map(|listing| rules(listing, family, chain, &mut left_out))
            };
            let is_base = chain.base(table).is_some();
            // The table exists in one family only.
            let alone = |rules: Vec<ObservedRule>, family| {
                let with_family = |rule| if is_base { with_family(rule, family) } else { rule };
                rules.into_iter().map(with_family).collect()
            };
            let rules = match (rules(v4, Family::V4), rules(v6, Family::V6)) {
                (Some(v4), Some(v6)) => united(&v4, &v6),
                (Some(v4), None) => alone(v4, Family::V4),
                (None, v6) => alone(v6.unwrap_or_default(), Family::V6),
            };
            let base = chain.base(table).map(base_text);
            let is_there = |listing: Option<&Listing>| {
                listing.is_some_and(|listing| listing.chains().any(|it| it == chain_name(chain)))
            };
            let is_told = !rules.is_empty() || is_there(v4) || is_there(v6);
            is_told.then(|| ObservedChain { name: chain.name().to_owned(), base, rules })
        });
        Some(ObservedTable { table, is_dormant: false, chains: chains.collect() })
    });
    (tables.collect(), left_out)
}

fn rules(
    listing: &Listing,
    family: Family,
    chain: Chain,
    left_out: &mut Vec<String>,
) -> Vec<ObservedRule> {
    let name = chain_name(chain);
    let mut found = Vec::new();
    for text in listing.rules_of(&name) {
        let is_base = chain.base(listing.table).is_some();
        match rule(listing.table, chain, text) {
            Some(rule) if !is_base || is_entry_rule(text) || is_istios(&rule) => {
                found.push(ObservedRule::Ours(rule));
            }
            _ if is_base => {
                left_out.push(format!("{family}: -A {name} {text}"));
            }
            _ => found.push(ObservedRule::Foreign(format!("{family}: -A {name} {text}"))),
        }
    }
    found
}

/// True if Istio's program adds such a rule to the kernel's chains, without a comment.
fn is_istios(rule: &Rule) -> bool {
    let is_interface =
        |it: &Match| matches!(it.field, Field::InInterface(_) | Field::OutInterface(_));
    let has_mark = |it: &Match| matches!(it.field, Field::PacketMark(_) | Field::ConnectionMark(_));
    match rule.verdict {
        Verdict::Return if rule.matches.iter().any(has_mark) => rule.table == Table::Mangle,
        Verdict::Return => matches!(&*rule.matches, [only] if is_interface(only)),
        Verdict::SaveMark | Verdict::RestoreMark => rule.matches.iter().any(has_mark),
        Verdict::SetPacketMark(mark) => mark == Mark::OUTBOUND,
        _ => false,
    }
}

/// Merges the rules of two families: rules in the same order in both become one.
fn united(v4: &[ObservedRule], v6: &[ObservedRule]) -> Vec<ObservedRule> {
    let sided = differing(v4, v6).into_iter();
    let of_side = |(side, rule)| match side {
        Side::Both => rule,
        Side::Planned => with_family(rule, Family::V4),
        Side::Installed => with_family(rule, Family::V6),
    };
    sided.map(of_side).collect()
}

/// Adds a condition on the family.
fn with_family(found: ObservedRule, family: Family) -> ObservedRule {
    match found {
        ObservedRule::Ours(mut rule) if rule.family().is_none() => {
            rule.matches.insert(0, Match::is(Field::Family(family)));
            ObservedRule::Ours(rule)
        }
        other => other,
    }
}

/// Parses a rule without `-A` and its chain; `None` if no plan can express it.
fn rule(table: Table, chain: Chain, text: &str) -> Option<Rule> {
    let mut reader = Reader::default();
    let mut words = words(text).into_iter().peekable();
    while let Some(word) = words.next() {
        let negated = word == "!";
        let option = if negated { words.next()? } else { word };
        let mut values = Vec::new();
        while let Some(value) = words.next_if(|word| word != "!" && !word.starts_with('-')) {
            values.push(value);
        }
        reader.option(&option, &values.join(" "), negated)?;
    }
    let verdict = reader.verdict()?;
    let matches = reader.matches;
    let origin = reader.origin.unwrap_or_else(|| default_origin(table, chain, &matches, verdict));
    Some(Rule { table, chain, matches, verdict, origin })
}

/// Rule under construction.
#[derive(Default)]
struct Reader {
    module: String,
    protocol: Option<Protocol>,
    matches: Vec<Match>,
    origin: Option<Origin>,
    target: Option<String>,
    port: Option<String>,
    mark: Option<String>,
    saves: Option<bool>,
    zone: Option<(ZoneDirection, String)>,
}

impl Reader {
    fn option(&mut self, option: &str, value: &str, negated: bool) -> Option<()> {
        let field = match option {
            "-m" => {
                value.clone_into(&mut self.module);
                return Some(());
            }
            "-p" => {
                let protocol = parsed(value)?;
                self.protocol = (!negated).then_some(protocol);
                Field::Protocol(protocol)
            }
            "-s" => Field::Source(AnyOf::one(parsed::<Cidr>(&with_length(value))?)),
            "-d" => Field::Destination(AnyOf::one(parsed::<Cidr>(&with_length(value))?)),
            "-i" => Field::InInterface(parsed(value)?),
            "-o" => Field::OutInterface(parsed(value)?),
            "--sport" | "--sports" => Field::SourcePort(self.protocol?, ports(value)?),
            "--dport" | "--dports" => Field::DestinationPort(self.protocol?, ports(value)?),
            "--uid-owner" => {
                let (first, last) = value.split_once('-').unwrap_or((value, value));
                let range = UidRange::new(parsed::<Uid>(first)?, parsed::<Uid>(last)?)?;
                Field::OwnerUid(AnyOf::one(range))
            }
            "--gid-owner" => Field::OwnerGid(AnyOf::one(parsed::<Gid>(value)?)),
            "--mark" if self.module == "mark" => Field::PacketMark(numbered(value)?),
            "--mark" if self.module == "connmark" => Field::ConnectionMark(numbered(value)?),
            "--ctstate" => Field::Connection(match value {
                "INVALID" => ConnectionState::Invalid,
                "RELATED,ESTABLISHED" | "ESTABLISHED,RELATED" => ConnectionState::Established,
                _ => return None,
            }),
            _ if negated => return None,
            _ => return self.action(option, value),
        };
        // A port condition implies its protocol.
        let is_port = matches!(field, Field::SourcePort(..) | Field::DestinationPort(..));
        let said = Field::Protocol(self.protocol.unwrap_or(Protocol::Tcp));
        if is_port && let Some(place) = self.matches.iter().position(|it| it.field == said) {
            self.matches.remove(place);
        }
        self.matches.push(Match { field, negated });
        Some(())
    }

    /// Parses the target and its options.
    fn action(&mut self, option: &str, value: &str) -> Option<()> {
        match option {
            "--comment" => {
                self.origin = value.strip_prefix(COMMENT).and_then(Origin::named).or(self.origin);
            }
            "-j" => self.target = Some(value.to_owned()),
            "--to-ports" | "--on-port" => self.port = Some(value.to_owned()),
            "--tproxy-mark" | "--set-xmark" => self.mark = Some(value.to_owned()),
            "--save-mark" => self.saves = Some(true),
            "--restore-mark" => self.saves = Some(false),
            "--zone" => self.zone = Some((ZoneDirection::Both, value.to_owned())),
            "--zone-orig" => self.zone = Some((ZoneDirection::Original, value.to_owned())),
            "--nfmask" | "--ctmask" if value == "0xffffffff" => {}
            "--on-ip" if value.chars().all(|c| "0.:".contains(c)) => {}
            _ => return None,
        }
        Some(())
    }

    fn verdict(&self) -> Option<Verdict> {
        let port = || self.port.as_deref().and_then(parsed);
        let mark = || self.mark.as_deref().and_then(numbered);
        Some(match self.target.as_deref()? {
            "RETURN" => Verdict::Return,
            "ACCEPT" => Verdict::Accept,
            "DROP" => Verdict::Drop,
            "REDIRECT" => Verdict::RedirectTo(port()?),
            "TPROXY" => Verdict::DeliverTo(port()?, mark()?),
            "MARK" => Verdict::SetPacketMark(mark()?),
            "CONNMARK" if self.saves? => Verdict::SaveMark,
            "CONNMARK" => Verdict::RestoreMark,
            "CT" => {
                let zones = [Zone::Upstream, Zone::Downstream];
                let (direction, number) = self.zone.as_ref()?;
                let number: u16 = number.parse().ok()?;
                let zone = zones.into_iter().find(|zone| zone.number() == number)?;
                Verdict::TrackIn(zone, *direction)
            }
            name => {
                let is_target =
                    |chain: &Chain| chain.base(Table::Nat).is_none() && chain_name(*chain) == name;
                Verdict::Jump(Chain::ALL.into_iter().find(is_target)?)
            }
        })
    }
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn ports(list: &str) -> Option<AnyOf<PortRange>> {
    AnyOf::several(list.split(',').map(parsed).collect::<Option<Vec<_>>>()?)
}

/// Parses a mark without a mask.
fn numbered(text: &str) -> Option<Mark> {
    Mark::from_number(mark(text).parse().ok()?)
}

/// Adds the prefix length that iptables omits for a single address.
fn with_length(text: &str) -> String {
    match (text.contains('/'), text.contains(':')) {
        (true, _) => text.to_owned(),
        (false, false) => format!("{text}/32"),
        (false, true) => format!("{text}/128"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(table: Table, lines: &str) -> Listing {
        Listing { table, lines: lines.lines().map(|line| line.trim().to_owned()).collect() }
    }

    fn texts(found: &[ObservedTable]) -> Vec<String> {
        let chains = found.iter().flat_map(|table| &table.chains);
        chains.flat_map(|chain| &chain.rules).map(ToString::to_string).collect()
    }

    #[test]
    fn rules_of_both_families_are_merged() {
        let with_family = |own: &str, prefix: &str| {
            let lines = format!(
                "-P OUTPUT ACCEPT
                 -N ISTIO_OUTPUT
                 -A OUTPUT -p tcp -m set --match-set others dst -j RETURN
                 -A OUTPUT -p tcp -j ACCEPT
                 -A OUTPUT -o net1 -j RETURN
                 -A OUTPUT -j ISTIO_OUTPUT
                 -A ISTIO_OUTPUT -s {own} -o lo -j RETURN
                 -A ISTIO_OUTPUT -o lo -m owner ! --uid-owner 1337 -j RETURN
                 -A ISTIO_OUTPUT -d {prefix} -j RETURN
                 -A ISTIO_OUTPUT -p tcp -m multiport --dports 80,8000:9000 -j ISTIO_REDIRECT
                 -A ISTIO_OUTPUT -m mark --mark 0x539/0xff -j RETURN"
            );
            listing(Table::Nat, &lines)
        };
        let listings = [
            (Family::V4, with_family("127.0.0.6/32", "10.96.0.0/12")),
            (Family::V6, with_family("::6/128", "fd00::/8")),
        ];
        let (found, left_out) = observed(&listings);
        insta::assert_snapshot!(texts(&found).join("\n"), @r#"
        add rule inet istio-proxy-nat output oifname "net1" counter return comment "--istio-exclude-interfaces"
        add rule inet istio-proxy-nat output counter jump istio-output comment "capture"
        add rule inet istio-proxy-nat istio-output ip saddr 127.0.0.6/32 oifname "lo" counter return comment "loopback"
        add rule inet istio-proxy-nat istio-output ip6 saddr ::6/128 oifname "lo" counter return comment "loopback"
        add rule inet istio-proxy-nat istio-output oifname "lo" meta skuid != 1337 counter return comment "loopback"
        add rule inet istio-proxy-nat istio-output ip daddr 10.96.0.0/12 counter return comment "--istio-service-exclude-cidr"
        add rule inet istio-proxy-nat istio-output ip6 daddr fd00::/8 counter return comment "--istio-service-exclude-cidr"
        add rule inet istio-proxy-nat istio-output tcp dport { 80, 8000-9000 } counter jump istio-redirect comment "--istio-outbound-ports"
        IPv4: -A ISTIO_OUTPUT -m mark --mark 0x539/0xff -j RETURN
        IPv6: -A ISTIO_OUTPUT -m mark --mark 0x539/0xff -j RETURN
        "#);
        assert_eq!(left_out.len(), 4);
    }

    #[test]
    fn any_text_can_be_read() {
        for text in [
            "",
            "!",
            "! -p",
            "-j",
            "-j ISTIO_NOBODY",
            "-p tcp --dport 99999 -j RETURN",
            "--dport 1 -j RETURN",
            "-p tcp --dports 1,,2 -j RETURN",
            "-s 10.0.0.0/99 -j RETURN",
            "-m owner --uid-owner 9-1 -j RETURN",
            "-j REDIRECT --to-ports 0",
            "-j MARK --set-xmark 0x0/0xffffffff",
            "-j CT --zone 70000",
            "-j CT --zone-orig 3",
            "-m comment --comment \"",
        ] {
            assert_eq!(rule(Table::Nat, Chain::Outbound, text), None, "{text}");
        }
    }
}
