//! Chains of other owners that can decide about packets before own rules do.

use std::fmt;

use super::{BackendError, Installer, iptables, nftables};
use crate::plan::{Hook, Plan};
use crate::types::family::Family;

/// Chain of another owner at a hook of own rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignChain {
    /// Program whose table it is in.
    pub owner: Installer,
    /// Address family of the table; `None` for both.
    pub family: Option<Family>,
    /// Table.
    pub table: String,
    /// Name.
    pub chain: String,
    /// Hook.
    pub hook: Hook,
    /// Priority; own rules have the same or a higher one.
    pub priority: i32,
}

/// Effect of a foreign rule on the packets that match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The next rule continues.
    Continue,
    /// Own rules do not see the packet, or cannot redirect it.
    Decide,
    /// Accepts: ends this chain and the chains that jump to it.
    Accept,
    /// Returns from this chain.
    Return,
    /// Continues with another chain, then with the next rule.
    Jump(String),
    /// Continues with another chain instead of the next rule.
    Goto(String),
}

/// Returns the foreign chains that can decide before the rules of a plan. Tables of iptables-legacy
/// that cannot be listed are left out.
///
/// A chain with the priority of an own one counts: the kernel does not tell which is first.
pub fn foreign_chains(plan: &Plan) -> Result<Vec<ForeignChain>, BackendError> {
    let mut chains = nftables::foreign_chains(plan)?;
    chains.extend(iptables::foreign_legacy_chains(plan));
    Ok(chains)
}

/// Returns the priority of the plan's last chain at a hook; `None` without one.
pub(super) fn last_priority(plan: &Plan, hook: Hook) -> Option<i32> {
    let bases = plan.rules.iter().filter_map(|rule| rule.chain.base(rule.table));
    bases.filter(|base| base.hook == hook).map(|base| base.priority).max()
}

/// True if a rule of the chain can decide. If own rules follow in the same chain, a rule that ends
/// it decides too.
pub(super) fn can_decide(
    effects: &dyn Fn(&str) -> Vec<Effect>,
    chain: &str,
    is_shared: bool,
) -> bool {
    can_decide_at(effects, chain, is_shared, 0)
}

fn can_decide_at(
    effects: &dyn Fn(&str) -> Vec<Effect>,
    chain: &str,
    is_shared: bool,
    depth: usize,
) -> bool {
    let ends_own = is_shared && depth == 0;
    depth < MOST_JUMPS
        && effects(chain).iter().any(|effect| match effect {
            Effect::Continue => false,
            Effect::Decide => true,
            Effect::Accept => is_shared,
            Effect::Return => ends_own,
            Effect::Goto(_) if ends_own => true,
            Effect::Jump(to) | Effect::Goto(to) => can_decide_at(effects, to, is_shared, depth + 1),
        })
}

/// Returns the effect of a target of iptables; `None` if it is the name of a chain, or unknown.
pub(super) fn target_effect(target: &str, is_untracked: bool) -> Option<Effect> {
    Some(match target {
        "CT" if !is_untracked => Effect::Continue,
        "CT" | "DNAT" | "DROP" | "NETMAP" | "NFQUEUE" | "NOTRACK" | "QUEUE" | "REDIRECT"
        | "REJECT" | "TPROXY" => Effect::Decide,
        "ACCEPT" => Effect::Accept,
        "RETURN" => Effect::Return,
        _ => return None,
    })
}

impl fmt::Display for ForeignChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, family, table, chain, priority, .. } = self;
        let family = family_name(*family);
        write!(f, "chain {chain} of table {family} {table} ({owner}, priority {priority})")
    }
}

/// Returns the name of a table's family, as nft spells it.
pub fn family_name(family: Option<Family>) -> &'static str {
    match family {
        None => "inet",
        Some(Family::V4) => "ip",
        Some(Family::V6) => "ip6",
    }
}

/// Limit of the kernel (`NFT_JUMP_STACK_SIZE`).
const MOST_JUMPS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_decide_by_verdict_and_place() {
        let jump = |to: &str| Effect::Jump(to.to_owned());
        let goto = |to: &str| Effect::Goto(to.to_owned());
        for (base, sub, decides_elsewhere, decides_in_shared_chain) in [
            (vec![], vec![], false, false),
            (vec![Effect::Continue], vec![], false, false),
            (vec![Effect::Continue, Effect::Decide], vec![], true, true),
            (vec![Effect::Accept], vec![], false, true),
            (vec![Effect::Return], vec![], false, true),
            (vec![jump("sub")], vec![Effect::Continue], false, false),
            (vec![jump("sub")], vec![Effect::Return], false, false),
            (vec![jump("sub")], vec![Effect::Accept], false, true),
            (vec![jump("sub")], vec![Effect::Decide], true, true),
            (vec![goto("sub")], vec![], false, true),
            (vec![goto("sub")], vec![Effect::Decide], true, true),
            (vec![jump("sub")], vec![jump("sub")], false, false),
        ] {
            let effects = |chain: &str| match chain {
                "base" => base.clone(),
                "sub" => sub.clone(),
                _ => Vec::new(),
            };
            for (is_shared, expected) in
                [(false, decides_elsewhere), (true, decides_in_shared_chain)]
            {
                let decides = can_decide(&effects, "base", is_shared);
                assert_eq!(decides, expected, "{base:?} {sub:?} {is_shared}");
            }
        }
    }

    #[test]
    fn targets_of_iptables_have_an_effect() {
        for (target, effect) in [
            ("ACCEPT", Some(Effect::Accept)),
            ("DNAT", Some(Effect::Decide)),
            ("CT", Some(Effect::Continue)),
            ("DOCKER", None),
            ("LOG", None),
        ] {
            assert_eq!(target_effect(target, false), effect);
        }
        assert_eq!(target_effect("CT", true), Some(Effect::Decide));
    }
}
