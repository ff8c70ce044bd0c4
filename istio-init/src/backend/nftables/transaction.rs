//! A plan as one `nf_tables` transaction (kernel `include/uapi/linux/netfilter/nf_tables.h`).

use rustix::io::Errno;

use super::installed::{Installed, ReusableTable};
use super::iptables_nft_cleanup::Removal;
use super::{encode, set};
use crate::netlink::errno_hint::Cause;
use crate::netlink::error::KernelError;
use crate::netlink::message::{
    ACK, APPEND, Attributes, CREATE, ERROR, Header, Messages, outcome, received,
};
use crate::netlink::nf_tables::{
    BATCH, BATCH_BEGIN, BATCH_END, BATCH_GENERATION, CHAIN_HOOK, CHAIN_NAME, CHAIN_POLICY,
    CHAIN_TABLE, CHAIN_TYPE, DELETE_CHAIN, DELETE_RULE, DELETE_TABLE, HOOK_NUMBER, HOOK_PRIORITY,
    INET, NEW_CHAIN, NEW_RULE, NEW_TABLE, RULE_CHAIN, RULE_EXPRESSIONS, RULE_TABLE, RULE_USER_DATA,
    TABLE_NAME, message_type,
};
use crate::netlink::socket::{RECEIVE_BUFFER, Socket};
use crate::plan::{Chain, Field, Hook, Plan, Rule, Table, Verdict};
use crate::render::nft;

/// Steps that the kernel carries out atomically, and only if the ruleset has not changed since the
/// tables were read.
pub(super) struct Transaction<'a> {
    generation: u32,
    steps: Vec<TransactionStep<'a>>,
}

/// A step. Its position in the transaction, counted from 1, is the sequence number of its message
/// and identifies it in an error.
#[derive(Clone)]
enum TransactionStep<'a> {
    DeleteTable(Table),
    /// All rules of all its chains.
    FlushTable(Table),
    DeleteChain(Table, String),
    /// Removal of an object that iptables-nft added.
    Remove(Removal),
    AddTable(Table),
    AddChain(Table, Chain),
    AddRule(&'a Rule),
}

/// Returns the message that adds a chain.
pub(super) fn chain_message(table: Table, chain: Chain) -> Messages {
    let mut messages = Messages::default();
    TransactionStep::AddChain(table, chain).encode(0, 0, &mut messages);
    messages
}

/// Returns the message that adds a rule.
pub(super) fn rule_message(rule: &Rule) -> Messages {
    let mut messages = Messages::default();
    TransactionStep::AddRule(rule).encode(0, 0, &mut messages);
    messages
}

/// Result of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommitOutcome {
    /// All steps are carried out.
    Done,
    /// Not committed: another process changed the ruleset after the look-up.
    Overtaken,
}

impl<'a> Transaction<'a> {
    /// Replaces the tables of earlier runs with those of the plan.
    ///
    /// Reusable tables and chains are kept and only their rules replaced: the kernel activates a
    /// new chain before it removes the old one, so a packet could pass both.
    pub(super) fn replacing(
        installed: &Installed,
        reusable: &[ReusableTable],
        plan: &'a Plan,
    ) -> Self {
        let stands = |table| reusable.iter().find(|reusable| reusable.table == table);
        let gone = installed.tables.iter().copied().filter(|table| stands(*table).is_none());
        let mut steps: Vec<TransactionStep> = gone.map(TransactionStep::DeleteTable).collect();
        for table in plan.tables() {
            let mut missing: Vec<Chain> = plan.chains(table).collect();
            if let Some(ReusableTable { chains, .. }) = stands(table) {
                let is_planned = |name: &&String| missing.iter().any(|it| it.name() == **name);
                steps.push(TransactionStep::FlushTable(table));
                let others = chains.iter().filter(|name| !is_planned(name)).cloned();
                steps.extend(others.map(|name| TransactionStep::DeleteChain(table, name)));
                missing.retain(|chain| !chains.iter().any(|name| name == chain.name()));
            } else {
                steps.push(TransactionStep::AddTable(table));
            }
            steps.extend(missing.into_iter().map(|chain| TransactionStep::AddChain(table, chain)));
            let rules = plan.rules.iter().filter(|rule| rule.table == table);
            steps.extend(rules.map(TransactionStep::AddRule));
        }
        Self { generation: installed.generation, steps }
    }

    /// Removes all tables of an earlier run.
    pub(super) fn removing(installed: &Installed) -> Self {
        let steps = installed.tables.iter().copied().map(TransactionStep::DeleteTable).collect();
        Self { generation: installed.generation, steps }
    }

    /// Removes the objects that iptables-nft added, and nothing else.
    pub(super) fn removing_leftovers(installed: &Installed, removals: Vec<Removal>) -> Self {
        Self { generation: installed.generation, steps: Vec::new() }.and(removals)
    }

    /// Adds the removal of objects that iptables-nft added.
    pub(super) fn and(mut self, removals: Vec<Removal>) -> Self {
        self.steps.extend(removals.into_iter().map(TransactionStep::Remove));
        self
    }

    /// Returns the steps as nft commands.
    pub(super) fn commands(&self) -> Vec<String> {
        self.steps.iter().map(TransactionStep::command).collect()
    }

    /// Sends the transaction to the kernel.
    pub(super) fn commit(&self, socket: &Socket) -> Result<CommitOutcome, KernelError> {
        if self.steps.is_empty() {
            return Ok(CommitOutcome::Done);
        }
        socket.send(self.encoded().as_bytes()).map_err(|errno| KernelError::Send(errno.into()))?;
        let mut buffer = vec![0; RECEIVE_BUFFER];
        let mut acknowledged = false;
        loop {
            let bytes = match socket.receive(&mut buffer) {
                Ok(bytes) => bytes,
                // All errors and the requested acknowledgement were queued before `send` returned.
                Err(Errno::AGAIN) if acknowledged => return Ok(CommitOutcome::Done),
                Err(errno) => return Err(KernelError::Answer(errno.into())),
            };
            for answer in received(bytes).filter(|message| message.kind == ERROR) {
                match outcome(answer.payload) {
                    Ok(()) => acknowledged = true,
                    Err(errno) if errno.raw_os_error() == RESTART => {
                        return Ok(CommitOutcome::Overtaken);
                    }
                    Err(errno) => return Err(self.refused(answer.sequence, errno)),
                }
            }
        }
    }

    fn encoded(&self) -> Messages {
        let mut messages = Messages::default();
        let batch = |kind| Header { kind, flags: 0, sequence: 0 };
        messages.push(batch(BATCH_BEGIN), &BATCH, |a| {
            a.number(BATCH_GENERATION, self.generation);
        });
        for (index, step) in self.steps.iter().enumerate() {
            let is_last = index + 1 == self.steps.len();
            let sequence = u32::try_from(index + 1).unwrap_or(u32::MAX);
            step.encode(sequence, if is_last { ACK } else { 0 }, &mut messages);
        }
        messages.push(batch(BATCH_END), &BATCH, |_| {});
        messages
    }

    fn refused(&self, sequence: u32, errno: Errno) -> KernelError {
        let index = usize::try_from(sequence).ok().and_then(|number| number.checked_sub(1));
        let refused = index.and_then(|index| self.steps.get(index));
        let cause = Cause::from(errno);
        let hint = refused.and_then(|step| step.missing(errno)).unwrap_or_else(|| cause.hint());
        let origin = match refused {
            Some(TransactionStep::AddRule(rule)) => Some(rule.origin),
            _ => None,
        };
        let step = refused.map_or_else(|| "the transaction".to_owned(), TransactionStep::command);
        let origin = origin.map(|origin| format!(" (from {origin})")).unwrap_or_default();
        KernelError::Refused { step, origin, cause, hint }
    }
}

impl TransactionStep<'_> {
    /// Returns the equivalent nft command.
    fn command(&self) -> String {
        match self {
            Self::DeleteTable(table) => format!("delete table inet {}", table.name()),
            Self::FlushTable(table) => format!("flush table inet {}", table.name()),
            Self::DeleteChain(table, name) => {
                format!("delete chain inet {} {name}", table.name())
            }
            Self::Remove(removal) => removal.to_string(),
            Self::AddTable(table) => format!("add table inet {}", table.name()),
            Self::AddChain(table, chain) => {
                format!("add chain inet {} {}", table.name(), chain.name())
            }
            Self::AddRule(rule) => nft::add_rule(rule),
        }
    }

    /// Returns the kernel part that is most likely missing.
    fn missing(&self, errno: Errno) -> Option<String> {
        let is_missing = matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::AFNOSUPPORT);
        let part = match self {
            Self::AddTable(_) => "tables of the family inet (CONFIG_NF_TABLES_INET)".to_owned(),
            Self::AddChain(table, chain) => {
                let kind = chain.base(*table)?.kind;
                let option = if kind == "nat" {
                    "module nft_chain_nat, Linux 5.2 or later"
                } else {
                    "CONFIG_NF_TABLES_INET"
                };
                format!("nf_tables' chains of type {kind} for the family inet ({option})")
            }
            Self::AddRule(rule) => {
                let expressions = modular_expressions(rule);
                let named = expressions.iter().map(|(expression, module)| {
                    format!("nf_tables' expression `{expression}` (module {module})")
                });
                let lacking = "nf_tables with NAT for the inet family (Linux 5.2 or later)";
                named.reduce(|all, one| format!("{all} or {one}")).unwrap_or(lacking.to_owned())
            }
            Self::DeleteTable(_)
            | Self::FlushTable(_)
            | Self::DeleteChain(..)
            | Self::Remove(_) => return None,
        };
        is_missing.then(|| format!("; hint: the kernel lacks {part}"))
    }

    fn encode(&self, sequence: u32, acknowledge: u16, messages: &mut Messages) {
        let header = |kind, flags: u16| Header {
            kind: message_type(kind),
            flags: flags | acknowledge,
            sequence,
        };
        match self {
            Self::DeleteTable(table) => messages.push(header(DELETE_TABLE, 0), &INET, |a| {
                a.text(TABLE_NAME, table.name());
            }),
            Self::FlushTable(table) => messages.push(header(DELETE_RULE, 0), &INET, |a| {
                a.text(RULE_TABLE, table.name());
            }),
            Self::DeleteChain(table, name) => messages.push(header(DELETE_CHAIN, 0), &INET, |a| {
                a.text(CHAIN_TABLE, table.name());
                a.text(CHAIN_NAME, name);
            }),
            Self::Remove(removal) => {
                let fixed = removal.fixed();
                messages.push(header(removal.kind(), 0), &fixed, |a| removal.encode(a));
            }
            Self::AddTable(table) => messages.push(header(NEW_TABLE, CREATE), &INET, |a| {
                a.text(TABLE_NAME, table.name());
            }),
            Self::AddChain(table, chain) => {
                messages.push(header(NEW_CHAIN, CREATE), &INET, |a| {
                    add_chain(*table, *chain, a);
                });
            }
            Self::AddRule(rule) => {
                // Sets have the rule's sequence number, so their errors are the rule's.
                let first_set = sequence.wrapping_mul(MOST_SETS).wrapping_add(1);
                for (set, number) in set::sets(rule).iter().zip(first_set..) {
                    set.encode(rule.table, number, sequence, messages);
                }
                messages.push(header(NEW_RULE, CREATE | APPEND), &INET, |a| {
                    a.text(RULE_TABLE, rule.table.name());
                    a.text(RULE_CHAIN, rule.chain.name());
                    a.nested(RULE_EXPRESSIONS, |list| encode::expressions(rule, first_set, list));
                    a.bytes(RULE_USER_DATA, &comment(&rule.origin.to_string()));
                });
            }
        }
    }
}

/// Returns the rule's expressions that a kernel may lack, with their modules.
fn modular_expressions(rule: &Rule) -> Vec<(&'static str, &'static str)> {
    const CONNECTION: (&str, &str) = ("ct", "nft_ct");
    let asks_connection = rule.matches.iter().any(|condition| {
        matches!(condition.field, Field::ConnectionMark(_) | Field::Connection(_))
    });
    let of_verdict = match rule.verdict {
        Verdict::RedirectTo(_) => Some(("redir", "nft_redir")),
        Verdict::DeliverTo(..) => Some(("tproxy", "nft_tproxy")),
        Verdict::SaveMark | Verdict::RestoreMark | Verdict::TrackIn(..) => Some(CONNECTION),
        _ => None,
    };
    let of_matches = asks_connection.then_some(CONNECTION).filter(|it| Some(*it) != of_verdict);
    of_matches.into_iter().chain(of_verdict).collect()
}

/// Returns the number of a hook of IP packets (`NF_INET_…`).
pub(super) fn hook_number(hook: Hook) -> u32 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Output => 3,
    }
}

fn add_chain(table: Table, chain: Chain, attributes: &mut Attributes) {
    attributes.text(CHAIN_TABLE, table.name());
    attributes.text(CHAIN_NAME, chain.name());
    let Some(base) = chain.base(table) else {
        return;
    };
    attributes.nested(CHAIN_HOOK, |hook| {
        hook.number(HOOK_NUMBER, hook_number(base.hook));
        hook.bytes(HOOK_PRIORITY, &base.priority.to_be_bytes());
    });
    attributes.number(CHAIN_POLICY, ACCEPT);
    attributes.text(CHAIN_TYPE, base.kind);
}

/// Encodes a comment like nft: type 0, length, zero-terminated text. Every nft can list it.
fn comment(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    [&[0, length], text.as_bytes(), &[0]].concat()
}

/// Limit on the sets of a rule, which keeps set numbers unique.
const MOST_SETS: u32 = 16;
/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;
/// `ERESTART`: the ruleset is not the generation that the transaction builds on.
const RESTART: i32 = 85;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::flags::Flag;
    use crate::plan::{ConnectionState, Match, Origin};
    use crate::types::port::Port;

    #[test]
    fn missing_kernel_part_is_named_with_rule_and_flag() {
        let rule = |matches, verdict, flag| Rule {
            table: Table::Nat,
            chain: Chain::Inbound,
            matches,
            verdict,
            origin: Origin::Flag(flag),
        };
        let begun = || vec![Match::is(Field::Connection(ConnectionState::Established))];
        let redirection = Verdict::RedirectTo(Port::DNS_PROXY);
        let rules = [
            rule(Vec::new(), redirection, Flag::RedirectDns),
            rule(begun(), redirection, Flag::RedirectDns),
            rule(begun(), Verdict::SaveMark, Flag::InboundTproxyMark),
            rule(Vec::new(), Verdict::Return, Flag::InboundPorts),
        ];
        let mut steps = vec![
            TransactionStep::AddTable(Table::Nat),
            TransactionStep::AddChain(Table::Nat, Chain::Output),
            TransactionStep::AddChain(Table::Mangle, Chain::Output),
        ];
        steps.extend(rules.iter().map(TransactionStep::AddRule));
        let sequences = 1..=u32::try_from(steps.len()).expect("a few steps");
        let transaction = Transaction { generation: 1, steps };
        let texts: Vec<String> = sequences
            .map(|sequence| transaction.refused(sequence, Errno::NOENT).to_string())
            .chain([transaction.refused(4, Errno::BUSY).to_string()])
            .collect();
        insta::assert_snapshot!(texts.join("\n\n"));
    }
}
