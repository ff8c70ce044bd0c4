//! One run at a time changes the rules of a network namespace.
//!
//! The rules of nftables are one transaction. An iptables program is told what to do from what was
//! listed before; when its parent is killed, it goes on, and what the next run has listed by then
//! is no longer true. So whoever changes rules holds a lock, and so does every program that it
//! starts, until the last of them has ended.

use std::os::fd::OwnedFd;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::{Errno, retry_on_intr};

use super::KernelError;
use super::patience::{PATIENCE, begin};

/// The right to change the rules of this network namespace, for as long as it is kept.
#[derive(Debug)]
pub struct Lock {
    /// None where the kernel has no such file to lock.
    _namespace: Option<OwnedFd>,
}

impl Lock {
    /// Waits for the runs before this one, but not longer than [`PATIENCE`].
    ///
    /// Where there is no /proc, or its files take no locks, nothing is waited for.
    pub fn take() -> Result<Self, KernelError> {
        // Not closed where a program is executed: it shares this open file, and so the lock.
        let Ok(namespace) = open(NAMESPACE, OFlags::RDONLY, Mode::empty()) else {
            return Ok(Self { _namespace: None });
        };
        let is_taken = match flock(&namespace, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Self::wait(namespace),
            outcome => outcome.is_ok(),
        };
        Ok(Self { _namespace: is_taken.then_some(namespace) })
    }

    fn wait(namespace: OwnedFd) -> Result<Self, KernelError> {
        let taken = begin(move || {
            let outcome = retry_on_intr(|| flock(&namespace, FlockOperation::LockExclusive));
            outcome.is_ok().then_some(namespace)
        });
        match taken.recv_timeout(PATIENCE) {
            Ok(namespace) => Ok(Self { _namespace: namespace }),
            Err(_) => Err(KernelError::Busy { seconds: PATIENCE.as_secs() }),
        }
    }
}

/// One file for each network namespace, whatever it is called.
const NAMESPACE: &str = "/proc/self/ns/net";
