//! Lock of a network namespace: one run at a time changes its rules.
//!
//! An nftables run is one transaction. An iptables program gets its input from an earlier listing
//! and continues when its parent is killed, so the listing of the next run can become stale.
//! Therefore a run that changes rules holds a lock, together with the programs that it starts,
//! until the last of them has ended.
//!
//! The lock is a group of the kernel's packet log (`nfnetlink_log`) that no rule logs to. A group
//! belongs to one socket, and only `CAP_NET_ADMIN` over the network namespace can take it, so a
//! process that cannot change rules cannot block others. A file could be locked by any process with
//! read access.

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

/// Permission to change the rules of this network namespace, until dropped.
#[derive(Debug)]
pub struct Lock {
    /// `None` if the kernel has no packet log, or this process cannot take the lock.
    _socket: Option<Socket>,
}

impl Lock {
    /// Waits for earlier runs, at most `TIMEOUT`. Calls `report` once with the processes that
    /// hold the lock.
    ///
    /// Without a packet log, no run waits. A process without the capability takes no lock: the
    /// kernel rejects its changes.
    pub fn take(report: impl FnOnce(&LockHolders)) -> Result<Self, KernelError> {
        let socket = match Socket::netfilter_for_children() {
            Err(error) if error.is_no_nf_tables() => return Ok(Self { _socket: None }),
            socket => socket?,
        };
        if try_lock(&socket)? {
            return Ok(Self { _socket: Some(socket) });
        }
        if !may_take(&socket) {
            return Ok(Self { _socket: None });
        }
        report(&lock_holders::lock_holders(GROUP));
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            if try_lock(&socket)? {
                return Ok(Self { _socket: Some(socket) });
            }
            thread::sleep(BETWEEN_TRIES);
        }
        let holders = lock_holders::lock_holders(GROUP);
        Err(KernelError::Busy { holders, seconds: TIMEOUT.as_secs() })
    }
}

/// Takes the lock. Returns false if another process has it or this process lacks the capability;
/// both are `EPERM`.
fn try_lock(socket: &Socket) -> Result<bool, KernelError> {
    match bind_group(socket) {
        Ok(()) => Ok(true),
        Err(Errno::PERM) => Ok(false),
        // The kernel has no packet log.
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

/// Group that serves as the lock. Its number is the proxy's inbound port, like the priority of the
/// policy rules.
const GROUP: u16 = 15_006;
/// `NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG` (kernel
/// `include/uapi/linux/netfilter/nfnetlink_log.h`).
const LOG_CONFIGURATION: u16 = 4 << 8 | 1;
/// `NFULA_CFG_CMD`.
const COMMAND: u16 = 1;
/// `NFULNL_CFG_CMD_BIND`.
const BIND: u8 = 1;
/// A run takes some milliseconds.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
