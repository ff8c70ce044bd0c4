//! Rules by the program iptables: installs a plan, and removes what an earlier run left.
//!
//! Each family takes one run of `iptables-restore`, and none when nothing is to change. What there
//! is is listed before, but only tables that exist, so a clean pod needs no listing. A table is
//! one unit for the kernel; a run that is killed between two tables, or two families, is made
//! whole by the next.

mod listing;
mod refusal;
mod run;
mod tables;
mod tools;

use std::io;

use rustix::io::Errno;
use thiserror::Error;

pub use tools::{Tools, Variant};

use super::KernelError;
use super::socket::Socket;
use crate::family::Family;
use crate::plan::Plan;
use crate::render::iptables::{families, sections};
use crate::verify::Side;
use listing::{Change, Listing};
use tables::Tables;

/// What iptables, or the way to it, refused.
#[derive(Debug, Error)]
pub enum IptablesError {
    /// The namespace's tables cannot be told.
    #[error("cannot look up the tables of iptables: {0}{hint}", hint = super::hint(*.0))]
    Tables(Errno),
    /// The one that the user names is not there.
    #[error(
        "--force-iptables-binary: `{0}` is an iptables that PATH does not have\n\
         hint: leave the flag out, or add iptables-{0} to the image"
    )]
    NoVariant(Variant),
    /// The user wants iptables, and there is none.
    #[error(
        "--backend: `iptables` cannot be used: PATH has no iptables that this process could run\n\
         hint: use --backend nftables, which needs no program"
    )]
    NoTools,
    /// One family's programs are missing.
    #[error(
        "IPv6 is to be captured, but PATH has no {0}\n\
         hint: add it to the image, or use --backend nftables"
    )]
    NoFamily(&'static str),
    /// A program cannot be started.
    #[error("cannot run {program}: {source}\nhint: --backend nftables needs no program")]
    Start {
        /// The program.
        program: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A program starts, and its libraries or its interpreter are missing.
    #[error("{program} cannot work: {reason}\nhint: --backend nftables needs no program")]
    Broken {
        /// The program.
        program: &'static str,
        /// What it, or what loads it, complains of.
        reason: String,
    },
    /// A program does not end.
    #[error(
        "{program} does not end\n\
         hint: another program may hold the lock of iptables, or the lock's file is on a file \
         system that hangs; --backend nftables needs no lock"
    )]
    Stuck {
        /// The program.
        program: &'static str,
    },
    /// A table cannot be listed.
    #[error("`{program} -t {table} -S` fails: {reason}\nhint: run it in the pod to see why")]
    List {
        /// The program.
        program: &'static str,
        /// The table.
        table: &'static str,
        /// What is known of the reason.
        reason: String,
    },
    /// A rule is refused, and with it its table.
    #[error("{program} refuses{step}{origin}: {reason}{hint}")]
    Refused {
        /// The program.
        program: &'static str,
        /// The line, when the program tells.
        step: String,
        /// The setting that asks for it, when there is one.
        origin: String,
        /// The program's complaint.
        reason: String,
        /// What to do.
        hint: String,
    },
    /// There are rules of an earlier run, and nothing to remove them with.
    #[error(
        "rules of an earlier run by iptables-nft are in force ({0}), and PATH has no iptables to \
         remove them\nhint: run --cleanup-only in an image that has iptables-nft"
    )]
    Unremovable(String),
    /// The kernel's own interface refuses.
    #[error(transparent)]
    Kernel(#[from] Box<KernelError>),
}

impl IptablesError {
    /// Whether there is no working program, so that nothing can have been changed by it.
    pub fn is_no_program(&self) -> bool {
        matches!(self, Self::Start { .. } | Self::Broken { .. } | Self::NoFamily(_))
    }
}

/// The iptables that a run is to use; `None` where there is none that could work.
///
/// As in Istio, the legacy one is preferred where it has rules: whoever made them uses it. But
/// what is not there is found out by reading; no rule is written to see whether it can be.
pub fn choose(forced: Option<Variant>) -> Result<Option<Tools>, IptablesError> {
    if let Some(variant) = forced {
        return Tools::find(variant).map(Some).ok_or(IptablesError::NoVariant(variant));
    }
    let tables = match read_tables() {
        // Whoever may not look may still print a plan.
        Err(IptablesError::Tables(Errno::PERM)) => Tables { answers: true, ..Tables::default() },
        read => read?,
    };
    let legacy = Tools::find(Variant::Legacy).filter(|_| tables::is_administrator());
    let nft = Tools::find(Variant::Nft).filter(|_| tables.answers);
    match (legacy, nft) {
        (Some(legacy), Some(_)) if has_rules(legacy, &tables)? => Ok(Some(legacy)),
        (legacy, nft) => Ok(nft.or(legacy)),
    }
}

/// Replaces what an earlier run installed with the same tools by the plan; changes nothing where
/// it is the plan already.
pub fn apply(tools: Tools, plan: &Plan) -> Result<(), IptablesError> {
    if families(plan).contains(&Family::V6) && !tools.are_there(Family::V6) {
        return Err(IptablesError::NoFamily(tools.restores(Family::V6)));
    }
    let tables = read_tables()?;
    for family in FAMILIES {
        let planned = sections(plan, family);
        let change = Change::between(&listings(tools, family, &tables)?, &planned);
        if !change.text.is_empty() {
            run::restore(tools, family, &change)?;
        }
    }
    Ok(())
}

/// What a run would change, as `iptables-restore` would be told: what is missing, and what should
/// not be there. Nothing when it is the plan already.
pub fn difference(tools: Tools, plan: &Plan) -> Result<Vec<(Side, String)>, IptablesError> {
    let tables = read_tables()?;
    let mut lines = Vec::new();
    for family in FAMILIES {
        let change = Change::between(&listings(tools, family, &tables)?, &sections(plan, family));
        let told = change.text.lines().filter(|line| line.starts_with([':', '-']));
        let of_family = told.map(|line| {
            let is_removal = line.starts_with("-D ") || line.starts_with("-X ");
            let side = if is_removal { Side::Installed } else { Side::Planned };
            (side, format!("{family} {line}"))
        });
        lines.extend(of_family);
    }
    Ok(lines)
}

/// Removes what an earlier run installed with any iptables but this one.
pub fn remove_all_but(kept: Option<Tools>) -> Result<(), IptablesError> {
    let tables = read_tables()?;
    for variant in Variant::ALL {
        if kept.is_some_and(|kept| kept.variant == variant) {
            continue;
        }
        if let Some(tools) = Tools::find(variant) {
            remove(tools, &tables)?;
        }
    }
    Ok(())
}

/// Fails where rules of an earlier run are in force that [`remove_all_but`] could not remove.
pub fn check_removable() -> Result<(), IptablesError> {
    let tables = read_tables()?;
    match tables.our_chains.first() {
        Some(chain) if Tools::find(Variant::Nft).is_none() => {
            Err(IptablesError::Unremovable(chain.clone()))
        }
        _ => Ok(()),
    }
}

fn remove(tools: Tools, tables: &Tables) -> Result<(), IptablesError> {
    for family in FAMILIES {
        let listings = listings(tools, family, tables)?;
        let change = Change::between(&listings, &[]);
        if change.text.is_empty() {
            continue;
        }
        run::restore(tools, family, &change)?;
        if tools.variant == Variant::Nft {
            let socket = Socket::netfilter().map_err(Box::new)?;
            for listing in listings.iter().filter(|listing| listing.has_ours()) {
                tables::remove_if_empty(&socket, family, listing.table)
                    .map_err(IptablesError::Tables)?;
            }
        }
    }
    Ok(())
}

fn read_tables() -> Result<Tables, IptablesError> {
    let socket = Socket::netfilter().map_err(Box::new)?;
    Tables::read(&socket).map_err(IptablesError::Tables)
}

fn has_rules(tools: Tools, tables: &Tables) -> Result<bool, IptablesError> {
    for family in FAMILIES {
        for table in tables.of(tools.variant, family) {
            if run::list(tools, family, table)?.has_rules() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn listings(tools: Tools, family: Family, tables: &Tables) -> Result<Vec<Listing>, IptablesError> {
    tables.of(tools.variant, family).map(|table| run::list(tools, family, table)).collect()
}

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
