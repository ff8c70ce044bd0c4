//! The kernel's side: installs a plan, removes it, and tells what the namespace has.
//!
//! Everything but [`iptables`] goes over netlink from this process; no other program is run. It
//! takes `CAP_NET_ADMIN` in the user namespace that owns the network namespace, and nothing else.

mod address;
mod comparison;
mod decode;
mod encode;
mod expression;
mod host;
mod installed;
pub mod iptables;
mod message;
mod nf_tables;
mod readback;
mod route;
mod set;
mod socket;
mod transaction;

use rustix::io::Errno;
use thiserror::Error;

pub use address::addresses;
pub use host::signs_of_host;
pub use readback::observe;

use crate::plan::Plan;
use installed::Installed;
use socket::Socket;
use transaction::{Outcome, Transaction};

/// What the kernel, or the way to it, refused.
#[derive(Debug, Error)]
pub enum KernelError {
    /// There is no netlink socket of this kind.
    #[error("cannot open a netlink socket for {protocol}: {errno}")]
    Socket {
        /// What the socket is for.
        protocol: &'static str,
        /// The kernel's reason.
        errno: Errno,
    },
    /// The addresses cannot be listed.
    #[error("cannot list the addresses of this network namespace: {0}")]
    ListAddresses(Errno),
    /// The interfaces cannot be listed.
    #[error("cannot list the interfaces of this network namespace: {0}")]
    ListInterfaces(Errno),
    /// Policy rules cannot be listed.
    #[error("cannot list the policy rules of this network namespace: {0}{hint}", hint = hint(*.0))]
    ListRouting(Errno),
    /// A policy rule or a route cannot be added or removed.
    #[error("the kernel refuses `{step}`: {errno}{hint}", hint = routing_hint(*.errno))]
    Routing {
        /// The part, as ip(8) would have it.
        step: String,
        /// The kernel's reason.
        errno: Errno,
    },
    /// The proxy's IPv6 source address cannot be added.
    #[error("cannot add ::6/128 to lo: {0}{hint}", hint = hint(*.0))]
    AddAddress(Errno),
    /// The proxy's IPv6 source address cannot be removed.
    #[error("cannot remove ::6/128 from lo: {0}{hint}", hint = hint(*.0))]
    RemoveAddress(Errno),
    /// What an earlier run installed cannot be looked up.
    #[error("cannot look up the rules of an earlier run: {0}{hint}", hint = hint(*.0))]
    ListRules(Errno),
    /// Somebody else changes the rules of this namespace all the time.
    #[error("the rules of this network namespace were changed by others again and again")]
    Overtaken,
    /// The rules as a whole cannot be sent.
    #[error("cannot send the rules to the kernel: {0}{hint}", hint = hint(*.0))]
    Send(Errno),
    /// The kernel answered nothing that makes sense.
    #[error("the kernel did not answer the rules: {0}")]
    Answer(Errno),
    /// One part of the rules is refused, and with it all.
    #[error("the kernel refuses `{step}`{origin}; no rule was changed: {errno}{hint}", hint = hint(*.errno))]
    Refused {
        /// The part, as nft would have it.
        step: String,
        /// The setting that asks for it, where there is one.
        origin: String,
        /// The kernel's reason.
        errno: Errno,
    },
}

/// Replaces whatever an earlier run installed in our tables by the plan; changes nothing where it
/// is the plan already.
///
/// All tables and both families are one transaction: when this process is killed, or the kernel
/// refuses a part, the rules are the old ones or the new ones.
pub fn apply(plan: &Plan) -> Result<(), KernelError> {
    with_surroundings(plan, || {
        let socket = Socket::netfilter()?;
        commit(&socket, |installed| {
            let is_in_force = comparison::is_in_force(&socket, installed, plan)?;
            Ok((!is_in_force).then(|| Transaction::replacing(installed, plan)))
        })
    })
}

/// Installs rules by whatever means, and beside them what they need: what does nothing without
/// rules comes before them, and what no rule needs any more goes after them.
pub fn with_surroundings<E: From<KernelError>>(
    plan: &Plan,
    install_rules: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    if plan.passthrough_address {
        address::add_passthrough()?;
    }
    if let Some(delivery) = &plan.local_delivery {
        route::add(delivery)?;
    }
    install_rules()?;
    route::remove_all_but(plan.local_delivery.as_ref())?;
    if !plan.passthrough_address {
        address::remove_passthrough()?;
    }
    Ok(())
}

/// Removes whatever an earlier run installed, whatever its settings were, but for what iptables
/// did.
pub fn clean_up() -> Result<(), KernelError> {
    remove_tables()?;
    route::remove_all_but(None)?;
    address::remove_passthrough()
}

/// Removes our tables, and nothing beside them.
pub fn remove_tables() -> Result<(), KernelError> {
    commit(&Socket::netfilter()?, |installed| Ok(Some(Transaction::removing(installed))))
}

/// Carries out what is decided from what is installed, as often as others get in between.
fn commit<'a>(
    socket: &Socket,
    decide: impl Fn(&Installed) -> Result<Option<Transaction<'a>>, KernelError>,
) -> Result<(), KernelError> {
    for _ in 0..ATTEMPTS {
        let Some(transaction) = decide(&Installed::read(socket)?)? else { return Ok(()) };
        if transaction.commit(socket)? == Outcome::Done {
            return Ok(());
        }
    }
    Err(KernelError::Overtaken)
}

fn routing_hint(errno: Errno) -> &'static str {
    match errno {
        Errno::OPNOTSUPP | Errno::AFNOSUPPORT => {
            "\nhint: TPROXY needs a kernel with policy routing; or use REDIRECT"
        }
        _ => hint(errno),
    }
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM => "\nhint: istio-init needs the capability NET_ADMIN",
        Errno::OPNOTSUPP | Errno::NOENT | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => {
            "\nhint: the kernel needs nf_tables with NAT for the inet family (5.2 or later)"
        }
        Errno::MSGSIZE => {
            "\nhint: the rules exceed net.core.wmem_max; use fewer and larger ranges, or raise it"
        }
        Errno::ACCESS => "\nhint: IPv6 may be disabled on lo (net.ipv6.conf.lo.disable_ipv6)",
        _ => "",
    }
}

/// Others change rules seldom, and never for long.
const ATTEMPTS: u32 = 100;
