//! A plan as one `nf_tables` transaction (kernel `include/uapi/linux/netfilter/nf_tables.h`).

use rustix::io::Errno;

use super::KernelError;
use super::encode;
use super::message::{ACK, APPEND, Attributes, CREATE, ERROR, Header, Messages, outcome, received};
use super::socket::{RECEIVE_BUFFER, Socket};
use crate::plan::{Chain, Hook, Plan, Rule, Table};
use crate::render::nft;

/// Steps that the kernel carries out all or none.
pub(super) struct Transaction<'a> {
    steps: Vec<Step<'a>>,
}

/// One step. Its place in the transaction is the sequence number of its message, by which an
/// error names it.
#[derive(Clone, Copy)]
enum Step<'a> {
    Begin,
    AddTable(Table),
    DeleteTable(Table),
    AddChain(Table, Chain),
    AddRule(&'a Rule),
    End,
}

impl<'a> Transaction<'a> {
    /// Replaces all tables of an earlier run by those of the plan.
    pub(super) fn replacing(plan: &'a Plan) -> Self {
        let mut steps = removal();
        for table in plan.tables() {
            steps.push(Step::AddTable(table));
            steps.extend(plan.chains(table).map(|chain| Step::AddChain(table, chain)));
            let rules = plan.rules.iter().filter(|rule| rule.table == table);
            steps.extend(rules.map(Step::AddRule));
        }
        steps.push(Step::End);
        Self { steps }
    }

    /// Removes all tables of an earlier run.
    pub(super) fn removing() -> Self {
        let mut steps = removal();
        steps.push(Step::End);
        Self { steps }
    }

    /// Has the kernel carry it out.
    pub(super) fn commit(&self) -> Result<(), KernelError> {
        let socket = Socket::netfilter()?;
        socket
            .send(self.encoded().as_bytes())
            .map_err(KernelError::Send)?;
        let mut buffer = vec![0; RECEIVE_BUFFER];
        let mut acknowledged = false;
        loop {
            let bytes = match socket.receive(&mut buffer) {
                Ok(bytes) => bytes,
                // Every error was there before the sending returned; so was the one
                // acknowledgement that was asked for.
                Err(Errno::AGAIN) if acknowledged => return Ok(()),
                Err(errno) => return Err(KernelError::Answer(errno)),
            };
            for answer in received(bytes).filter(|message| message.kind == ERROR) {
                outcome(answer.payload).map_err(|errno| self.refused(answer.sequence, errno))?;
                acknowledged = true;
            }
        }
    }

    fn encoded(&self) -> Messages {
        let mut messages = Messages::default();
        let last = self.steps.len().saturating_sub(2);
        for (sequence, step) in (0..).zip(&self.steps) {
            let acknowledge = if sequence as usize == last { ACK } else { 0 };
            step.encode(sequence, acknowledge, &mut messages);
        }
        messages
    }

    fn refused(&self, sequence: u32, errno: Errno) -> KernelError {
        let step = usize::try_from(sequence)
            .ok()
            .and_then(|index| self.steps.get(index));
        let (step, origin) = match step {
            Some(Step::AddTable(table)) => (format!("add table inet {}", table.name()), None),
            Some(Step::DeleteTable(table)) => (format!("delete table inet {}", table.name()), None),
            Some(Step::AddChain(table, chain)) => (
                format!("add chain inet {} {}", table.name(), chain.name()),
                None,
            ),
            Some(Step::AddRule(rule)) => (nft::add_rule(rule), Some(rule.origin)),
            Some(Step::Begin | Step::End) | None => ("the transaction".to_owned(), None),
        };
        let origin = origin
            .map(|origin| format!(" (from {origin})"))
            .unwrap_or_default();
        KernelError::Refused {
            step,
            origin,
            errno,
        }
    }
}

impl Step<'_> {
    fn encode(self, sequence: u32, acknowledge: u16, messages: &mut Messages) {
        let nf_tables = |kind: u16, flags: u16| Header {
            kind: NF_TABLES << 8 | kind,
            flags: flags | acknowledge,
            sequence,
        };
        let batch = |kind| Header {
            kind,
            flags: 0,
            sequence,
        };
        match self {
            Self::Begin => messages.push(batch(BATCH_BEGIN), &BATCH, |_| {}),
            Self::End => messages.push(batch(BATCH_END), &BATCH, |_| {}),
            Self::AddTable(table) => messages.push(nf_tables(NEW_TABLE, CREATE), &INET, |a| {
                a.text(TABLE_NAME, table.name());
            }),
            Self::DeleteTable(table) => messages.push(nf_tables(DELETE_TABLE, 0), &INET, |a| {
                a.text(TABLE_NAME, table.name());
            }),
            Self::AddChain(table, chain) => {
                messages.push(nf_tables(NEW_CHAIN, CREATE), &INET, |a| {
                    add_chain(table, chain, a);
                });
            }
            Self::AddRule(rule) => {
                messages.push(nf_tables(NEW_RULE, CREATE | APPEND), &INET, |a| {
                    a.text(RULE_TABLE, rule.table.name());
                    a.text(RULE_CHAIN, rule.chain.name());
                    a.nested(RULE_EXPRESSIONS, |list| encode::expressions(rule, list));
                    a.bytes(RULE_USER_DATA, &comment(&rule.origin.to_string()));
                });
            }
        }
    }
}

/// Deletion fails on a table that is not there, so each is added first.
fn removal<'a>() -> Vec<Step<'a>> {
    let mut steps = vec![Step::Begin];
    for table in Table::ALL {
        steps.extend([Step::AddTable(table), Step::DeleteTable(table)]);
    }
    steps
}

fn add_chain(table: Table, chain: Chain, attributes: &mut Attributes) {
    attributes.text(CHAIN_TABLE, table.name());
    attributes.text(CHAIN_NAME, chain.name());
    let Some(base) = chain.base(table) else {
        return;
    };
    attributes.nested(CHAIN_HOOK, |hook| {
        hook.number(
            HOOK_NUMBER,
            match base.hook {
                Hook::Prerouting => 0,
                Hook::Output => 3,
            },
        );
        hook.bytes(HOOK_PRIORITY, &base.priority.to_be_bytes());
    });
    attributes.number(CHAIN_POLICY, ACCEPT);
    attributes.text(CHAIN_TYPE, base.kind);
}

/// A comment as nft keeps it: type 0, length, text with its final zero. Any nft can list it.
fn comment(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len() + 1).unwrap_or(u8::MAX);
    [&[0, length], text.as_bytes(), &[0]].concat()
}

/// `NFNL_SUBSYS_NFTABLES`.
const NF_TABLES: u16 = 10;
/// `struct nfgenmsg`: family `NFPROTO_INET`, version, resource.
const INET: [u8; 4] = [1, 0, 0, 0];
/// The same of a batch: no family, and the subsystem as resource.
const BATCH: [u8; 4] = [0, 0, 0, 10];

// NFNL_MSG_BATCH_… and NFT_MSG_….
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;

// NFTA_TABLE_…, NFTA_CHAIN_…, NFTA_HOOK_…, NFTA_RULE_….
const TABLE_NAME: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const RULE_USER_DATA: u16 = 7;

/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;
