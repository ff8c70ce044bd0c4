//! Errors of the kernel's interfaces.

use rustix::io::Errno;
use thiserror::Error;

use super::errno_hint::Cause;
use super::lock_holders::LockHolders;
use super::nf_tables;

/// Error of the kernel's interfaces.
#[derive(Debug, Error)]
pub enum KernelError {
    /// There is no netlink socket of this kind.
    #[error("cannot open a netlink socket for {protocol}: {}{}", .cause.errno, .cause.socket_hint())]
    Socket {
        /// Interface of the socket.
        protocol: &'static str,
        /// The kernel's reason.
        cause: Cause,
    },
    /// Objects of one kind cannot be listed.
    #[error("cannot list the {objects} of this network namespace: {cause}")]
    List {
        /// Kind of the objects.
        objects: &'static str,
        /// The kernel's reason.
        cause: Cause,
    },
    /// A policy rule or a route cannot be added or removed.
    #[error("the kernel rejects `{step}`: {}{}", .cause.errno, routing_hint(.cause))]
    Routing {
        /// Equivalent ip(8) command.
        step: String,
        /// The kernel's reason.
        cause: Cause,
    },
    /// A network namespace outside the pod's cannot be created or linked.
    #[error("the kernel rejects `{step}`: {}{}", .cause.errno, outside_hint(.cause))]
    Outside {
        /// Failed system call or equivalent ip(8) command.
        step: String,
        /// The kernel's reason.
        cause: Cause,
    },
    /// The proxy's IPv6 source address cannot be added.
    #[error("cannot add ::6/128 to lo: {0}")]
    AddAddress(Cause),
    /// The proxy's IPv6 source address cannot be removed.
    #[error("cannot remove ::6/128 from lo: {0}")]
    RemoveAddress(Cause),
    /// The rules of an earlier run cannot be listed.
    #[error("cannot list the rules of an earlier run in nf_tables: {}{}", .0.errno, .0.rules_hint())]
    ListRules(Cause),
    /// An earlier run has not ended.
    #[error(
        "another run has held the lock of this network namespace for {seconds} seconds: {holders}; \
         hint: end it, or run this again later"
    )]
    Busy {
        /// Processes that hold the lock.
        holders: LockHolders,
        /// Waiting time.
        seconds: u64,
    },
    /// The lock cannot be taken although it is free.
    #[error("cannot take the lock of this network namespace: {0}")]
    Lock(Cause),
    /// Other processes keep changing the rules of the network namespace.
    #[error("other processes keep changing the rules of this network namespace")]
    Overtaken,
    /// The transaction cannot be sent.
    #[error("cannot send the rules to the kernel: {}{}", .0.errno, .0.rules_hint())]
    Send(Cause),
    /// The kernel's answer is invalid.
    #[error("the kernel did not acknowledge the rules: {}{}", .0.errno, .0.rules_hint())]
    Answer(Cause),
    /// The kernel rejects a step and thereby the whole transaction.
    #[error("the kernel rejects `{step}`{origin}; no rule was changed: {}{hint}", .cause.errno)]
    Refused {
        /// Equivalent nft command.
        step: String,
        /// The setting that the step comes from, if any.
        origin: String,
        /// The kernel's reason.
        cause: Cause,
        /// Remedy.
        hint: String,
    },
}

impl KernelError {
    /// True if the kernel has no `nf_tables`.
    pub fn is_no_nf_tables(&self) -> bool {
        match self {
            Self::Socket { cause, .. } if cause.errno == Errno::AFNOSUPPORT => true,
            Self::Socket { cause, .. } | Self::ListRules(cause) => {
                nf_tables::is_no_nf_tables(cause.errno)
            }
            _ => false,
        }
    }
}

fn outside_hint(cause: &Cause) -> &'static str {
    if cause.errno == Errno::PERM { "; it needs CAP_SYS_ADMIN and CAP_NET_ADMIN" } else { "" }
}

fn routing_hint(cause: &Cause) -> String {
    match cause.errno {
        Errno::OPNOTSUPP | Errno::AFNOSUPPORT => {
            "; hint: TPROXY needs a kernel with policy routing; or use REDIRECT".to_owned()
        }
        _ => cause.hint(),
    }
}
