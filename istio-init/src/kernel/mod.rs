//! The kernel's side: installs a plan, removes it, and tells what the namespace has.
//!
//! Everything but [`iptables`] goes over netlink from this process; no other program is run. It
//! takes `CAP_NET_ADMIN` in the user namespace that owns the network namespace, and nothing else.

mod address;
mod cause;
mod comparison;
mod decode;
mod dump;
mod encode;
mod expression;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod holder;
mod host;
mod installed;
pub mod iptables;
mod lock;
mod message;
mod nf_tables;
mod outside;
mod patience;
mod privileges;
mod readback;
mod route;
mod set;
mod socket;
mod transaction;
mod value;

use rustix::io::Errno;
use thiserror::Error;

pub use address::addresses;
pub use cause::Cause;
pub use holder::Holders;
pub use host::host_evidence;
pub use lock::Lock;
pub use outside::Outside;
pub use readback::{has_leftovers, has_own_tables, observe, with_surroundings as observe_with};

use crate::config::PASSTHROUGH_V6;
use crate::plan::Plan;
use installed::Installed;
use socket::Socket;
use transaction::{Outcome, Transaction};

/// What the kernel, or the way to it, refused.
#[derive(Debug, Error)]
pub enum KernelError {
    /// There is no netlink socket of this kind.
    #[error("cannot open a netlink socket for {protocol}: {}{}", .cause.errno, .cause.hint_of_socket())]
    Socket {
        /// What the socket is for.
        protocol: &'static str,
        /// The kernel's reason.
        cause: Cause,
    },
    /// The addresses cannot be listed.
    #[error("cannot list the addresses of this network namespace: {0}")]
    ListAddresses(Cause),
    /// The interfaces cannot be listed.
    #[error("cannot list the interfaces of this network namespace: {0}")]
    ListInterfaces(Cause),
    /// The chains cannot be listed.
    #[error("cannot list the chains of this network namespace: {0}")]
    ListChains(Cause),
    /// Policy rules cannot be listed.
    #[error("cannot list the policy rules of this network namespace: {0}")]
    ListRouting(Cause),
    /// A policy rule or a route cannot be added or removed.
    #[error("the kernel refuses `{step}`: {}{}", .cause.errno, routing_hint(.cause))]
    Routing {
        /// The part, as ip(8) would have it.
        step: String,
        /// The kernel's reason.
        cause: Cause,
    },
    /// A network namespace outside the pod's cannot be created or linked.
    #[error("the kernel refuses `{step}`: {}{}", .cause.errno, outside_hint(.cause))]
    Outside {
        /// The refused call, or the refused command of ip(8).
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
    /// What an earlier run installed cannot be looked up.
    #[error("cannot look up the rules of an earlier run in nf_tables: {}{}", .0.errno, .0.hint_of_rules())]
    ListRules(Cause),
    /// A run before this one has not ended.
    #[error(
        "another run changes the rules of this network namespace, and has not ended for {seconds} \
         seconds: {holders}\n\
         hint: end it, or run this again later"
    )]
    Busy {
        /// Processes that hold the lock.
        holders: Holders,
        /// Time that it was waited for.
        seconds: u64,
    },
    /// The lock cannot be taken, and no other process has it.
    #[error("cannot take the lock of this network namespace: {0}")]
    Lock(Cause),
    /// Somebody else changes the rules of this namespace all the time.
    #[error("the rules of this network namespace were changed by others again and again")]
    Overtaken,
    /// The rules as a whole cannot be sent.
    #[error("cannot send the rules to the kernel: {}{}", .0.errno, .0.hint_of_rules())]
    Send(Cause),
    /// The kernel answered nothing that makes sense.
    #[error("the kernel did not answer the rules: {}{}", .0.errno, .0.hint_of_rules())]
    Answer(Cause),
    /// One part of the rules is refused, and with it all.
    #[error("the kernel refuses `{step}`{origin}; no rule was changed: {}{hint}", .cause.errno)]
    Refused {
        /// The part, as nft would have it.
        step: String,
        /// The setting that asks for it, where there is one.
        origin: String,
        /// The kernel's reason.
        cause: Cause,
        /// What to do.
        hint: String,
    },
}

impl KernelError {
    /// Whether the kernel has no `nf_tables`, so that nothing can be installed there.
    pub fn is_no_nf_tables(&self) -> bool {
        match self {
            Self::Socket { cause, .. } if cause.errno == Errno::AFNOSUPPORT => true,
            Self::Socket { cause, .. } | Self::ListRules(cause) => {
                nf_tables::is_no_nf_tables(cause.errno)
            }
            _ => false,
        }
    }

    /// Whether this process may not do what it is asked for.
    pub fn is_no_permission(&self) -> bool {
        matches!(self, Self::ListRules(cause) if cause.errno == Errno::PERM)
    }
}

/// Replaces whatever an earlier run installed in our tables by the plan, and removes what it had
/// iptables-nft install; changes nothing where the rules are the plan already.
///
/// All tables and both families are one transaction: when this process is killed, or the kernel
/// refuses a part, the rules are the old ones or the new ones.
pub fn apply(plan: &Plan) -> Result<(), KernelError> {
    with_surroundings(plan, || {
        let socket = Socket::netfilter()?;
        commit(&socket, |installed| {
            let leftovers = leftovers(&socket)?;
            if comparison::is_in_force(&socket, installed, plan)? {
                return Ok(Transaction::removing_leftovers(installed, leftovers));
            }
            let standing = comparison::standing(&socket, installed, plan)?;
            Ok(Transaction::replacing(installed, &standing, plan).and(leftovers))
        })
    })
}

/// Installs rules by whatever means, and beside them what they need: what does nothing without
/// rules comes before them, and what no rule needs any more goes after them. What was added for
/// rules that then cannot be installed is removed again.
pub fn with_surroundings<E: From<KernelError>>(
    plan: &Plan,
    install_rules: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let mut added = Added::default();
    let installed = added.add_all(plan).map_err(E::from).and_then(|()| install_rules());
    if let Err(error) = installed {
        added.remove();
        return Err(error);
    }
    route::remove_all_but(plan.local_delivery.as_ref())?;
    if !plan.passthrough_address {
        address::remove_passthrough()?;
    }
    Ok(())
}

/// Addresses and routes that this run has added. What an earlier run added, whose rules may be in
/// force, is not among them.
#[derive(Default)]
struct Added {
    has_passthrough: bool,
    routing: route::Added,
}

impl Added {
    fn add_all(&mut self, plan: &Plan) -> Result<(), KernelError> {
        if plan.passthrough_address {
            self.has_passthrough = address::add_passthrough()?;
        }
        match &plan.local_delivery {
            Some(delivery) => self.routing.add(delivery),
            None => Ok(()),
        }
    }

    /// The run has failed already, and its error is the one to report: a cleanup, and the next
    /// run, remove what stays here.
    fn remove(self) {
        let _ = self.routing.remove();
        if self.has_passthrough {
            let _ = address::remove_passthrough();
        }
    }
}

/// Removes whatever an earlier run installed, whatever its settings were, but for what
/// iptables-legacy did.
pub fn clean_up() -> Result<(), KernelError> {
    remove_tables()?;
    route::remove_all_but(None)?;
    address::remove_passthrough()
}

/// Removes our tables, and what an earlier run had iptables-nft install.
pub fn remove_tables() -> Result<(), KernelError> {
    remove(|socket, installed| Ok(Transaction::removing(installed).and(leftovers(socket)?)))
}

/// Removes our tables, and nothing beside them.
pub fn remove_own_tables() -> Result<(), KernelError> {
    remove(|_, installed| Ok(Transaction::removing(installed)))
}

/// Where there is no `nf_tables`, nothing is to be removed.
fn remove<'a>(
    decide: impl Fn(&Socket, &Installed) -> Result<Transaction<'a>, KernelError>,
) -> Result<(), KernelError> {
    let remove = || {
        let socket = Socket::netfilter()?;
        commit(&socket, |installed| decide(&socket, installed))
    };
    match remove() {
        Err(error) if error.is_no_nf_tables() => Ok(()),
        ended => ended,
    }
}

/// What [`clean_up`] would do now, as commands of nft and ip.
pub fn removals() -> Result<Removals, KernelError> {
    let by_nft = || {
        let socket = Socket::netfilter()?;
        let installed = Installed::read(&socket)?;
        Ok(Transaction::removing(&installed).and(leftovers(&socket)?).commands())
    };
    let by_nft = match by_nft() {
        Err(error) if KernelError::is_no_nf_tables(&error) => Vec::new(),
        commands => commands?,
    };
    let mut by_ip = route::removals()?;
    if addresses()?.contains(&PASSTHROUGH_V6.into()) {
        by_ip.push("ip -6 address delete ::6/128 dev lo".to_owned());
    }
    Ok(Removals { by_nft, by_ip })
}

/// Commands that undo what an earlier run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// For `nft -f`.
    pub by_nft: Vec<String>,
    /// Programs with their arguments.
    pub by_ip: Vec<String>,
}

fn leftovers(socket: &Socket) -> Result<Vec<iptables::Removal>, KernelError> {
    iptables::leftovers(socket).map_err(|errno| KernelError::ListRules(errno.into()))
}

/// Carries out what is decided from what is installed, as often as others get in between.
fn commit<'a>(
    socket: &Socket,
    decide: impl Fn(&Installed) -> Result<Transaction<'a>, KernelError>,
) -> Result<(), KernelError> {
    for _ in 0..ATTEMPTS {
        let transaction = decide(&Installed::read(socket)?)?;
        if transaction.commit(socket)? == Outcome::Done {
            return Ok(());
        }
    }
    Err(KernelError::Overtaken)
}

fn outside_hint(cause: &Cause) -> &'static str {
    if cause.errno == Errno::PERM { "; it takes CAP_SYS_ADMIN and CAP_NET_ADMIN" } else { "" }
}

fn routing_hint(cause: &Cause) -> String {
    match cause.errno {
        Errno::OPNOTSUPP | Errno::AFNOSUPPORT => {
            "\nhint: TPROXY needs a kernel with policy routing; or use REDIRECT".to_owned()
        }
        _ => cause.hint(),
    }
}

/// Others change rules seldom, and never for long.
const ATTEMPTS: u32 = 100;
