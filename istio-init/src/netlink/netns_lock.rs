//! Lock of a network namespace: one run at a time changes its rules.
//!
//! The rules of nftables are one transaction. An iptables program is told what to do from what was
//! listed before. When its parent is killed, it goes on, and what the next run has listed by then
//! is no longer true. So a run that changes rules holds a lock, and so does every program that it
//! starts, until the last of them has ended.
//!
//! The lock is a group of the kernel's packet log (`nfnetlink_log`) to which no rule sends packets.
//! A group belongs to one socket at a time, and only `CAP_NET_ADMIN` over the network namespace
//! can take it: a process that may not change the rules cannot keep others from changing them. A
//! file could be locked by any process that may read it.

use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::errno_hint::Cause;
use super::error::KernelError;
use super::lock_holders;
use super::lock_holders::LockHolders;
use super::message::{ACK, Header, Messages};
use super::nf_tables::{FIXED_LENGTH, GET_GENERATION, is_no_nf_tables, message_type};
use super::socket::Socket;
use super::timeout::TIMEOUT;

/// The right to change the rules of this network namespace, for as long as it is kept.
#[derive(Debug)]
pub struct Lock {
    /// None where the kernel has no packet log, or this process may not take the lock.
    _socket: Option<Socket>,
}

impl Lock {
    /// Waits for the runs before this one, but not longer than [`TIMEOUT`]. `report` learns once
    /// which processes are waited for.
    ///
    /// A kernel without a packet log makes no run wait. A process without the
    /// capability takes no lock: each change that it asks for is rejected.
    pub fn take(report: impl FnOnce(&LockHolders)) -> Result<Self, KernelError> {
        let socket = match Socket::netfilter_for_children() {
            Err(error) if error.is_no_nf_tables() => return Ok(Self { _socket: None }),
            socket => socket?,
        };
        if is_taken(&socket)? {
            return Ok(Self { _socket: Some(socket) });
        }
        if !may_take(&socket) {
            return Ok(Self { _socket: None });
        }
        report(&lock_holders::lock_holders(GROUP));
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            if is_taken(&socket)? {
                return Ok(Self { _socket: Some(socket) });
            }
            thread::sleep(BETWEEN_TRIES);
        }
        let holders = lock_holders::lock_holders(GROUP);
        Err(KernelError::Busy { holders, seconds: TIMEOUT.as_secs() })
    }
}

/// Takes the lock. False if another process has it, or if this process may not have it; both are
/// `EPERM`.
fn is_taken(socket: &Socket) -> Result<bool, KernelError> {
    match bind_group(socket) {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => Ok(false),
        // There is no such log.
        Err(errno) if is_no_nf_tables(errno) => Ok(true),
        Err(errno) => Err(KernelError::Lock(Cause::from(errno))),
    }
}

/// True if this process may change rules. Like each request to `nf_tables`, the one for the
/// ruleset's generation needs `CAP_NET_ADMIN`.
fn may_take(socket: &Socket) -> bool {
    let mut messages = Messages::default();
    let header = Header { kind: message_type(GET_GENERATION), flags: 0, sequence: 1 };
    messages.push(header, &[0; FIXED_LENGTH], |_| {});
    socket.change(messages.as_bytes()) != Err(Errno::PERM)
}

fn bind_group(socket: &Socket) -> Result<(), Errno> {
    let [high, low] = GROUP.to_be_bytes();
    let mut messages = Messages::default();
    let header = Header { kind: LOG_CONFIGURATION, flags: ACK, sequence: 1 };
    messages.push(header, &[0, 0, high, low], |a| a.bytes(COMMAND, &[BIND]));
    socket.change(messages.as_bytes())
}

/// The group that stands for the lock. Its number is that of the proxy's inbound port, as is the
/// priority of the policy rules.
const GROUP: u16 = 15_006;
/// `NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG` (kernel
/// `include/uapi/linux/netfilter/nfnetlink_log.h`).
const LOG_CONFIGURATION: u16 = 4 << 8 | 1;
/// `NFULA_CFG_CMD`.
const COMMAND: u16 = 1;
/// `NFULNL_CFG_CMD_BIND`.
const BIND: u8 = 1;
/// Runs last some milliseconds.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
