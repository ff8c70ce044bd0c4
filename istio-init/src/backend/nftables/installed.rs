//! Tables of an earlier run.

use rustix::io::Errno;

use crate::netlink::error::KernelError;
use crate::netlink::message::{ERROR, Header, Messages, attribute, outcome, received};
use crate::netlink::nf_tables::{
    FIXED_LENGTH, GENERATION_ID, GET_GENERATION, GET_TABLE, INET, NEW_GENERATION, NEW_TABLE,
    TABLE_FLAGS, TABLE_NAME, message_type,
};
use crate::netlink::socket::{RECEIVE_BUFFER, Socket};
use crate::plan::Table;

/// Own tables in the network namespace, and the generation of the ruleset that they were read at.
///
/// A transaction names its generation, and the kernel rejects it if the ruleset has changed since.
/// So only existing tables are deleted. This saves time: a transaction with a deletion blocks for
/// some milliseconds until no processor uses the deleted objects.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) generation: u32,
    pub(super) tables: Vec<Table>,
    /// True if a table is dormant.
    pub(super) is_dormant: bool,
}

/// Table that is kept, with its chains, while its rules are replaced.
pub(super) struct ReusableTable {
    pub(super) table: Table,
    /// All its chains by name, planned or not.
    pub(super) chains: Vec<String>,
}

impl Installed {
    /// Reads from the kernel.
    pub(super) fn read(socket: &Socket) -> Result<Self, KernelError> {
        ask(socket).map_err(|errno| KernelError::ListRules(errno.into()))
    }
}

/// Queries the kernel. The request for a table has its index in [`Table::ALL`] as sequence number.
fn ask(socket: &Socket) -> Result<Installed, Errno> {
    let mut messages = Messages::default();
    let header = |kind, sequence| Header { kind: message_type(kind), flags: 0, sequence };
    messages.push(header(GET_GENERATION, GENERATION_REQUEST), &[0; FIXED_LENGTH], |_| {});
    for (index, table) in (0..).zip(Table::ALL) {
        messages.push(header(GET_TABLE, index), &INET, |a| a.text(TABLE_NAME, table.name()));
    }
    socket.send(messages.as_bytes())?;

    let mut generation = None;
    let mut tables = Vec::new();
    let mut is_dormant = false;
    let mut buffer = vec![0; RECEIVE_BUFFER];
    loop {
        let bytes = match socket.receive(&mut buffer) {
            Ok(bytes) => bytes,
            // All answers were queued before `send` returned.
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(errno),
        };
        for answer in received(bytes) {
            if answer.kind == message_type(NEW_GENERATION) {
                let id = attribute(values(answer.payload), GENERATION_ID);
                generation = id.and_then(|id| id.try_into().ok()).map(u32::from_be_bytes);
            } else if answer.kind == message_type(NEW_TABLE) {
                let index = usize::try_from(answer.sequence).ok();
                tables.extend(index.and_then(|index| Table::ALL.get(index)));
                let flags = attribute(values(answer.payload), TABLE_FLAGS).unwrap_or_default();
                is_dormant |= flags.iter().any(|byte| *byte != 0);
            } else if answer.kind == ERROR {
                match outcome(answer.payload) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno),
                }
            }
        }
    }
    let generation = generation.ok_or(Errno::BADMSG)?;
    Ok(Installed { generation, tables, is_dormant })
}

fn values(payload: &[u8]) -> &[u8] {
    payload.get(FIXED_LENGTH..).unwrap_or_default()
}

/// Sequence number that is no table's index.
const GENERATION_REQUEST: u32 = 1000;
