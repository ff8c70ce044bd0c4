//! Listing of an iptables table, and the change that turns it into the planned one.

use std::fmt::Write as _;

use crate::backend::foreign;
use crate::backend::foreign::Effect;
use crate::plan::Table;
use crate::render::iptables::{COMMENT, Line, Section, is_our_chain, table_name};

/// Output of `iptables -S` for one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) table: Table,
    pub(super) lines: Vec<String>,
}

/// A text for `iptables-restore --noflush`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) text: String,
    /// Rule of each line of the text, if the line adds one.
    pub(super) rules: Vec<Option<Line>>,
}

impl Listing {
    /// True if the table has a rule.
    pub(super) fn has_rules(&self) -> bool {
        self.lines.iter().any(|line| line.starts_with("-A "))
    }

    /// True if the table has rules of this program or of Istio's.
    pub(super) fn has_own_rules(&self) -> bool {
        self.chains().next().is_some() || self.entry_rules().next().is_some()
    }

    /// Returns the chains of this program.
    pub(super) fn chains(&self) -> impl Iterator<Item = &str> {
        let names = self.lines.iter().filter_map(|line| line.strip_prefix("-N "));
        names.filter(|name| is_our_chain(name))
    }

    /// Returns chain and rule of each own rule in the kernel's chains and in foreign ones: jumps to
    /// own chains, and rules with the own comment.
    pub(super) fn entry_rules(&self) -> impl Iterator<Item = (&str, &str)> {
        let rules = self.lines.iter().filter_map(|line| rule_of(line));
        rules.filter(|(chain, rule)| !is_our_chain(chain) && is_entry_rule(rule))
    }

    pub(super) fn rules_of<'a>(&'a self, chain: &'a str) -> impl Iterator<Item = &'a str> {
        let rules = self.lines.iter().filter_map(|line| rule_of(line));
        rules.filter(move |(of, _)| *of == chain).map(|(_, rule)| rule)
    }

    /// True if a foreign rule of the chain can decide before own rules do.
    pub(super) fn can_decide(&self, chain: &str) -> bool {
        let effects = |name: &str| {
            let foreign = self.rules_of(name).take_while(|rule| !is_entry_rule(rule));
            foreign.map(effect).collect()
        };
        foreign::can_decide(&effects, chain, self.rules_of(chain).any(is_entry_rule))
    }

    /// True if the listing has the section's chains and rules in order, and no other own rule.
    /// Ignores foreign rules.
    fn is(&self, section: &Section) -> bool {
        let planned = |chain: &str| {
            let lines = section.lines.iter().filter(|line| line.chain == chain);
            lines.map(|line| terms(&line.rule)).collect::<Vec<_>>()
        };
        let has_rules = |chain: &String| {
            self.chains().any(|name| name == chain)
                && self.rules_of(chain).map(terms).eq(planned(chain))
        };
        let has_ways_in = |kernels: &&str| {
            let entry_rules = self.entry_rules().filter(|(chain, _)| chain == kernels);
            entry_rules.map(|(_, rule)| terms(rule)).eq(planned(kernels))
        };
        self.chains().count() == section.chains.len()
            && section.chains.iter().all(has_rules)
            && self.entry_rules().all(|(chain, _)| KERNELS_CHAINS.contains(&chain))
            && KERNELS_CHAINS.iter().all(has_ways_in)
    }
}

impl Change {
    /// True if nothing has to change.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the change from the listed tables to the planned ones; empty if they are equal. The
    /// kernel replaces each table atomically.
    pub(super) fn between(listings: &[&Listing], sections: &[Section]) -> Self {
        let mut change = Self::default();
        for table in [Table::Mangle, Table::Nat, Table::Raw] {
            let listing = listings.iter().find(|listing| listing.table == table).copied();
            let section = sections.iter().find(|section| section.table == table);
            match (listing, section) {
                (Some(listing), None) if !listing.has_own_rules() => {}
                (Some(listing), Some(section)) if listing.is(section) => {}
                (None, None) => {}
                _ => change.add_table(table, listing, section),
            }
        }
        change
    }

    fn add_table(&mut self, table: Table, listing: Option<&Listing>, section: Option<&Section>) {
        let planned = section.map_or(&[][..], |section| &section.chains);
        let (chains, entry_rules): (Vec<&str>, Vec<_>) = match listing {
            Some(listing) => (listing.chains().collect(), listing.entry_rules().collect()),
            None => Default::default(),
        };
        let is_stale = |name: &&&str| !planned.iter().any(|chain| chain == **name);
        let stale: Vec<&str> = chains.iter().filter(is_stale).copied().collect();
        self.push(format_args!("* {}", table_name(table)), None);
        // Creates the chain, or empties it.
        for chain in planned.iter().map(String::as_str).chain(stale.iter().copied()) {
            self.push(format_args!(":{chain} - [0:0]"), None);
        }
        for (chain, rule) in entry_rules {
            self.push(format_args!("-D {chain} {rule}"), None);
        }
        for line in section.map_or(&[][..], |section| &section.lines) {
            self.push(format_args!("-A {} {}", line.chain, line.rule), Some(line));
        }
        for chain in stale {
            self.push(format_args!("-X {chain}"), None);
        }
        self.push(format_args!("COMMIT"), None);
    }

    fn push(&mut self, line: std::fmt::Arguments, rule: Option<&Line>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
        self.rules.push(rule.cloned());
    }
}

fn rule_of(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("-A ").and_then(|rest| rest.split_once(' '))
}

/// Returns the effect of a rule. A target that is no chain has no rules.
fn effect(rule: &str) -> Effect {
    let words = words(rule);
    let target = words.windows(2).find(|pair| pair[0] == "-j" || pair[0] == "-g");
    let Some([option, target]) = target else {
        return Effect::Continue;
    };
    let is_untracked = words.iter().any(|word| word == "--notrack");
    foreign::target_effect(target, is_untracked).unwrap_or_else(|| {
        let to = target.clone();
        if option == "-g" { Effect::Goto(to) } else { Effect::Jump(to) }
    })
}

pub(super) fn is_entry_rule(rule: &str) -> bool {
    let words = words(rule);
    words.windows(2).any(|pair| match &*pair[0] {
        "-j" | "-g" => is_our_chain(&pair[1]),
        "--comment" => pair[1].starts_with(COMMENT),
        _ => false,
    })
}

/// Returns a rule's conditions and target in a normal form, so that written and listed rules can be
/// compared.
pub(super) fn terms(rule: &str) -> Vec<String> {
    let mut terms = Vec::new();
    let mut words = words(rule).into_iter().peekable();
    while let Some(word) = words.next() {
        let (not, option) = match (&*word, words.peek()) {
            ("!", Some(_)) => ("! ", words.next().unwrap_or_default()),
            _ => ("", word),
        };
        let mut values = Vec::new();
        while let Some(value) = words.next_if(|word| word != "!" && !word.starts_with('-')) {
            values.push(value);
        }
        let value = values.join(" ");
        let (option, value) = match &*option {
            // The option itself identifies its module.
            "-m" => continue,
            "--on-ip" if value.chars().all(|c| "0.:".contains(c)) => continue,
            "--nfmask" | "--ctmask" if value == ALL_BITS => continue,
            "--set-mark" => ("--set-xmark", mark(&value)),
            "--set-xmark" | "--mark" | "--tproxy-mark" => (&*option, mark(&value)),
            "--to-port" => ("--to-ports", value),
            "-s" | "-d" if not.is_empty() && value.ends_with("/0") => continue,
            "-s" | "-d" if !value.contains('/') => {
                let bits = if value.contains(':') { 128 } else { 32 };
                (&*option, format!("{value}/{bits}"))
            }
            "--sport" | "--dport" if not.is_empty() && value == "0:65535" => continue,
            _ => (&*option, value),
        };
        terms.push(format!("{not}{option} {value}"));
    }
    terms.sort_unstable();
    terms
}

/// Returns the normal form of a mark: with a mask unless it has all bits.
pub(super) fn mark(text: &str) -> String {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (value, mask) = text.split_once('/').unwrap_or((text, ALL_BITS));
    match (number(value), number(mask)) {
        (Some(value), Some(u32::MAX)) => value.to_string(),
        (Some(value), Some(mask)) => format!("{value}/{mask}"),
        _ => text.to_owned(),
    }
}

/// Splits a rule into words; double quotes enclose one word.
pub(super) fn words(rule: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = rule.trim_start();
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('"').and_then(|rest| rest.split_once('"'));
        let (word, tail) = quoted.or_else(|| rest.split_once(' ')).unwrap_or((rest, ""));
        words.push(word.to_owned());
        rest = tail.trim_start();
    }
    words
}

/// Built-in chains of the kernel that plans have rules in.
pub(super) const KERNELS_CHAINS: [&str; 2] = ["PREROUTING", "OUTPUT"];
const ALL_BITS: &str = "0xffffffff";

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(lines: &str) -> Listing {
        let lines = lines.lines().map(|line| line.trim().to_owned()).collect();
        Listing { table: Table::Nat, lines }
    }

    #[test]
    fn rendered_and_listed_rules_compare_equal() {
        for (written, listed) in [
            (
                "-o lo ! -d 127.0.0.1/32 -p tcp ! --dport 15008 -m owner --uid-owner 1337 -j ISTIO_IN_REDIRECT",
                "! -d 127.0.0.1/32 -o lo -p tcp -m tcp ! --dport 15008 -m owner --uid-owner 1337 -j ISTIO_IN_REDIRECT",
            ),
            ("-d 0.0.0.0/0 -p tcp --dport 0:65535 -j RETURN", "-p tcp -m tcp -j RETURN"),
            ("-j MARK --set-mark 1337", "-j MARK --set-xmark 0x539/0xffffffff"),
            (
                "-p tcp -m mark --mark 1337 -j CONNMARK --save-mark",
                "-p tcp -m mark --mark 0x539 -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff",
            ),
            (
                "! -d ::1/128 -p tcp -j TPROXY --tproxy-mark 1337/0xffffffff --on-port 15006",
                "! -d ::1/128 -p tcp -j TPROXY --on-port 15006 --on-ip :: --tproxy-mark 0x539/0xffffffff",
            ),
            (
                "-i net1 -m comment --comment \"istio-init --b\" -j RETURN",
                "-i net1 -m comment --comment \"istio-init --b\" -j RETURN",
            ),
        ] {
            assert_eq!(terms(written), terms(listed));
        }
        for (one, other) in [
            ("-d 10.0.0.0/8 -j RETURN", "! -d 10.0.0.0/8 -j RETURN"),
            ("-m mark --mark 1 -j RETURN", "-m mark --mark 0x1/0x1 -j RETURN"),
            ("-p tcp -j RETURN", "-j RETURN"),
        ] {
            assert_ne!(terms(one), terms(other));
        }
    }

    #[test]
    fn foreign_rules_before_own_ones_decide() {
        for (rules, decides) in [
            ("-A OUTPUT -p tcp -j ACCEPT\n-A OUTPUT -j ISTIO_OUTPUT", true),
            ("-A OUTPUT -p tcp -j ACCEPT", false),
            ("-A OUTPUT -j ISTIO_OUTPUT\n-A OUTPUT -p tcp -j DNAT --to-destination :1", false),
            ("-A OUTPUT -p tcp -j DNAT --to-destination :1", true),
            ("-A OUTPUT -j OTHERS\n-A OTHERS -j REDIRECT --to-ports 1", true),
            ("-A OUTPUT -j OTHERS\n-A OTHERS -j LOG", false),
            ("-A OUTPUT -p udp -j CT --zone 3", false),
            ("-A OUTPUT -p udp -j CT --notrack", true),
            ("-A OUTPUT -g OTHERS\n-A OUTPUT -j ISTIO_OUTPUT", true),
            ("-A OUTPUT -m comment --comment \"istio-init --x\" -j RETURN", false),
            ("-A OUTPUT -p tcp", false),
        ] {
            assert_eq!(listing(rules).can_decide("OUTPUT"), decides, "{rules}");
        }
    }

    #[test]
    fn foreign_rules_are_ignored() {
        let listing = listing(
            "-P PREROUTING ACCEPT
             -N DOCKER
             -A PREROUTING -i net1 -j RETURN
             -A OUTPUT -m comment --comment \"of istio-init \" -j DOCKER",
        );
        assert!(listing.has_rules());
        assert!(!listing.has_own_rules());
        assert_eq!(Change::between(&[&listing], &[]), Change::default());
    }

    #[test]
    fn rules_of_earlier_runs_are_removed() {
        let listing = listing(
            "-P PREROUTING ACCEPT
             -N ISTIO_OUTPUT
             -N OTHERS
             -A OUTPUT -o net1 -m comment --comment \"istio-init --x\" -j RETURN
             -A OUTPUT -p tcp -j OTHERS
             -A OUTPUT -j ISTIO_OUTPUT
             -A ISTIO_OUTPUT -j RETURN",
        );
        let text = Change::between(&[&listing], &[]).text;
        insta::assert_snapshot!(text, @r#"
        * nat
        :ISTIO_OUTPUT - [0:0]
        -D OUTPUT -o net1 -m comment --comment "istio-init --x" -j RETURN
        -D OUTPUT -j ISTIO_OUTPUT
        -X ISTIO_OUTPUT
        COMMIT
        "#);
    }

    #[test]
    fn any_text_can_be_read() {
        for text in ["", "!", "! !", "\"", "-A", "-j", "--comment \"", "-A X"] {
            let _ = (terms(text), is_entry_rule(text), rule_of(text));
        }
    }
}
