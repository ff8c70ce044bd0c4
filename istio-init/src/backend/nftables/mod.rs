//! Rules by nftables, over netlink. No other program runs.

mod comparison;
mod decode;
mod encode;
mod expression;
mod foreign;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod installed;
mod iptables_nft_cleanup;
pub(super) mod iptables_tables;
mod readback;
mod set;
mod transaction;

use super::prerequisites;
use crate::netlink::error::KernelError;
use crate::netlink::socket::Socket;
use crate::plan::Plan;
use installed::Installed;
use transaction::{CommitOutcome, Transaction};

pub use foreign::foreign_chains;
pub use readback::{has_iptables_nft_rules, has_tables, observe};

/// Replaces the rules of an earlier run with the plan, including those installed by iptables-nft.
/// Changes nothing if the plan is installed already.
///
/// All tables and both families are one transaction: if this process is killed or the kernel
/// rejects a part, the rules are the old ones or the new ones.
pub fn apply(plan: &Plan) -> Result<(), KernelError> {
    prerequisites::install_with(plan, || {
        let socket = Socket::netfilter()?;
        commit(&socket, |installed| {
            let leftovers = iptables_nft_removals(&socket)?;
            if comparison::is_in_force(&socket, installed, plan)? {
                return Ok(Transaction::removing_leftovers(installed, leftovers));
            }
            let reusable = comparison::reusable_tables(&socket, installed, plan)?;
            Ok(Transaction::replacing(installed, &reusable, plan).and(leftovers))
        })
    })
}

/// Removes this program's tables and the rules that iptables-nft installed for an earlier run.
pub fn remove_all_tables() -> Result<(), KernelError> {
    remove(|socket, installed| {
        Ok(Transaction::removing(installed).and(iptables_nft_removals(socket)?))
    })
}

/// Removes this program's tables only.
pub fn remove_tables() -> Result<(), KernelError> {
    remove(|_, installed| Ok(Transaction::removing(installed)))
}

/// Commits a removal. A kernel without `nf_tables` has nothing to remove.
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

/// Returns the nft commands that [`remove_all_tables`] is equivalent to.
pub fn removal_commands() -> Result<Vec<String>, KernelError> {
    let commands = || {
        let socket = Socket::netfilter()?;
        let installed = Installed::read(&socket)?;
        Ok(Transaction::removing(&installed).and(iptables_nft_removals(&socket)?).commands())
    };
    match commands() {
        Err(error) if KernelError::is_no_nf_tables(&error) => Ok(Vec::new()),
        commands => commands,
    }
}

fn iptables_nft_removals(
    socket: &Socket,
) -> Result<Vec<iptables_nft_cleanup::Removal>, KernelError> {
    iptables_nft_cleanup::removals(socket).map_err(|errno| KernelError::ListRules(errno.into()))
}

/// Decides and commits a transaction, again if another process changed the ruleset in between.
fn commit<'a>(
    socket: &Socket,
    decide: impl Fn(&Installed) -> Result<Transaction<'a>, KernelError>,
) -> Result<(), KernelError> {
    for _ in 0..ATTEMPTS {
        let transaction = decide(&Installed::read(socket)?)?;
        if transaction.commit(socket)? == CommitOutcome::Done {
            return Ok(());
        }
    }
    Err(KernelError::Overtaken)
}

/// Other processes change rules seldom, and never for long.
const ATTEMPTS: u32 = 100;
