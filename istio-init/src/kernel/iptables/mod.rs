//! Rules by the program iptables: installs a plan, and removes what an earlier run left.
//!
//! Each family takes one run of `iptables-restore`, and none when nothing is to change. What there
//! is is listed before, but only tables that exist, so a clean pod needs no listing. A table is
//! one unit for the kernel; a run that is killed between two tables, or two families, is made
//! whole by the next.

mod comparison;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod leftovers;
mod listing;
mod origin;
mod reading;
mod refusal;
mod run;
mod tables;
mod tools;

use std::fmt;
use std::io;

use rustix::io::Errno;
use thiserror::Error;

pub(super) use leftovers::{Removal, leftovers};
pub use tools::{Tools, Variant};

use super::nf_tables::{CHAIN_NAME, CHAIN_TABLE};
use super::privileges::{Capability, Holding, Privileges};
use super::socket::Socket;
use super::{Cause, KernelError};
use crate::family::Family;
use crate::observed::ObservedTable;
use crate::plan::Plan;
use crate::render::iptables::{families, sections, table_name};
use crate::verify::Side;
use listing::{Change, Listing};
use tables::Tables;

/// What iptables, or the way to it, refused.
#[derive(Debug, Error)]
pub enum IptablesError {
    /// The namespace's tables cannot be told.
    #[error("cannot look up the tables of iptables: {0}")]
    Tables(Cause),
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
    #[error("cannot run {program}: {source}\nhint: {}", hint_of_start(source))]
    Start {
        /// The program.
        program: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A program cannot be started after others have installed a part of the rules.
    #[error("the rules of {family} are installed, and the others are not: {rest}")]
    HalfDone {
        /// The family of the rules.
        family: Family,
        /// The failure.
        rest: Box<IptablesError>,
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
    /// Each listing is another.
    #[error("the rules of iptables were changed by others again and again")]
    Unsettled,
    /// Legacy tables are there that nobody can look into.
    #[error("{0}\nhint: run `iptables-legacy -S` in the pod to see why it fails")]
    Unknown(String),
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
    /// The kernel's own interface refuses.
    #[error(transparent)]
    Kernel(#[from] Box<KernelError>),
}

/// The iptables that the user names; any that works where he names none.
pub fn find(forced: Option<Variant>) -> Result<Tools, IptablesError> {
    match forced {
        Some(variant) => Tools::find(variant).ok_or(IptablesError::NoVariant(variant)),
        None => usable(&read_tables()?).ok_or(IptablesError::NoTools),
    }
}

/// The iptables that a run is to use which nobody told what to use; `None` where there is none
/// that could work, or where nothing could.
///
/// As in Istio, the legacy one is preferred where it has rules: whoever made them uses it. But
/// what is not there is found out by reading; no rule is written to see whether it can be.
pub fn choose() -> Option<Tools> {
    read_tables().ok().and_then(|tables| usable(&tables))
}

fn usable(tables: &Tables) -> Option<Tools> {
    let legacy = Tools::find(Variant::Legacy).filter(|_| may_use_legacy());
    let nft = Tools::find(Variant::Nft).filter(|_| tables.answers);
    match (legacy, nft) {
        // One that cannot even list is none to be preferred.
        (Some(legacy), Some(_)) if has_rules(legacy, tables).unwrap_or(false) => Some(legacy),
        (legacy, nft) => nft.or(legacy),
    }
}

/// Whether this process may run iptables-legacy: besides the capabilities, only the administrator
/// may read which tables there are.
fn may_use_legacy() -> bool {
    let privileges = Privileges::of_this_process();
    rustix::process::geteuid().is_root()
        && [Capability::NetAdmin, Capability::NetRaw]
            .into_iter()
            .all(|capability| privileges.holds(capability) == Holding::Effective)
}

/// Replaces what an earlier run installed with the same tools by the plan; changes nothing where
/// it is the plan already.
pub fn apply(tools: Tools, plan: &Plan) -> Result<(), IptablesError> {
    if families(plan).contains(&Family::V6) && !tools.are_there(Family::V6) {
        return Err(IptablesError::NoFamily(tools.restores(Family::V6)));
    }
    let changes_of = |all: &[Listed]| FAMILIES.map(|family| (family, change(all, plan, family)));
    let is_nothing = |all: &[Listed]| changes_of(all).iter().all(|(_, change)| change.is_empty());
    let listings = whole(|| all_listings(tools, &read_tables()?), is_nothing)?;
    let mut done = None;
    for (family, change) in changes_of(&listings) {
        if change.is_empty() {
            continue;
        }
        run::restore(tools, family, &change).map_err(|error| match (error, done) {
            (rest @ IptablesError::Start { .. }, Some(family)) => {
                IptablesError::HalfDone { family, rest: Box::new(rest) }
            }
            (error, _) => error,
        })?;
        done = Some(family);
    }
    Ok(())
}

fn hint_of_start(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::WouldBlock {
        "no more processes can be started (RLIMIT_NPROC, or the PID limit of the pod or its node); \
         --backend nftables starts none"
    } else {
        "--backend nftables needs no program"
    }
}

/// What turns the listed tables of a family into the planned ones.
fn change(all: &[Listed], plan: &Plan, family: Family) -> Change {
    let of_family = all.iter().filter(|(of, _)| *of == family);
    let of_family: Vec<&Listing> = of_family.map(|(_, listing)| listing).collect();
    Change::between(&of_family, &sections(plan, family))
}

/// What these tools have installed against the plan, line by line.
pub fn compare(tools: Tools, plan: &Plan) -> Result<Vec<(Side, String)>, IptablesError> {
    let compared = |all: &[Listed]| comparison::compared(plan, all);
    let is_equal = |all: &[Listed]| compared(all).iter().all(|(side, _)| *side == Side::Both);
    Ok(compared(&whole(|| all_listings(tools, &read_tables()?), is_equal)?))
}

/// What an earlier run had these tools install, and the rules of others in the kernel's chains
/// that no plan could have.
pub fn observe(tools: Tools) -> Result<(Vec<ObservedTable>, Vec<String>), IptablesError> {
    Ok(reading::observed(&whole(|| all_listings(tools, &read_tables()?), |_| false)?))
}

/// Whether an earlier run had iptables-legacy install something, and warnings of what cannot be
/// looked into.
pub fn has_legacy() -> Result<(bool, Vec<String>), IptablesError> {
    let (removals, unknown) = legacy_removals(&read_tables()?);
    Ok((!removals.is_empty(), warnings(&unknown)))
}

/// Removes what an earlier run installed with iptables-legacy. What cannot be looked into is
/// returned as a warning.
pub fn remove_legacy() -> Result<Vec<String>, IptablesError> {
    Ok(warnings(&remove_known_legacy()?))
}

/// The same, but a program that is there and fails is an error, once the rest is removed.
pub fn remove_all_legacy() -> Result<Vec<String>, IptablesError> {
    let unknown = remove_known_legacy()?;
    match unknown.iter().find(|unknown| unknown.is_failure) {
        Some(failed) => Err(IptablesError::Unknown(failed.to_string())),
        None => Ok(warnings(&unknown)),
    }
}

fn remove_known_legacy() -> Result<Vec<Unknown>, IptablesError> {
    let (removals, unknown) = legacy_removals(&read_tables()?);
    for (tools, family, change) in removals {
        run::restore(tools, family, &change)?;
    }
    Ok(unknown)
}

/// What [`remove_legacy`] would do now: texts, each under a comment that names its program.
pub fn legacy_removal_script() -> Result<(String, Vec<String>), IptablesError> {
    let (removals, unknown) = legacy_removals(&read_tables()?);
    let texts = removals.into_iter().map(|(tools, family, change)| {
        format!("# {} --noflush\n{}", tools.restores(family), change.text)
    });
    Ok((texts.collect(), warnings(&unknown)))
}

/// Legacy tables of a family that cannot be looked into.
struct Unknown {
    family: Family,
    tables: String,
    reason: String,
    /// Whether there is a program for it.
    is_failure: bool,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, tables, reason, .. } = self;
        write!(
            f,
            "{family}: iptables-legacy has tables here ({tables}), and {reason}; should they have \
             rules of an earlier run, these are still in force"
        )
    }
}

fn warnings(unknown: &[Unknown]) -> Vec<String> {
    unknown.iter().map(ToString::to_string).collect()
}

fn legacy_removals(tables: &Tables) -> (Vec<(Tools, Family, Change)>, Vec<Unknown>) {
    let mut removals = Vec::new();
    let mut all_unknown = Vec::new();
    let tools = Tools::find(Variant::Legacy);
    for family in FAMILIES {
        let names: Vec<&str> = tables.of(Variant::Legacy, family).map(table_name).collect();
        if names.is_empty() {
            continue;
        }
        let unknown = |reason: &str, is_failure| {
            let (tables, reason) = (names.join(", "), reason.to_owned());
            Unknown { family, tables, reason, is_failure }
        };
        let Some(tools) = tools else {
            let reason = "PATH has no iptables-legacy to look into them";
            all_unknown.push(unknown(reason, false));
            continue;
        };
        match whole(|| listings(tools, family, tables), |_| false) {
            Ok(listings) => {
                let change = Change::between(&listings.iter().collect::<Vec<_>>(), &[]);
                if !change.is_empty() {
                    removals.push((tools, family, change));
                }
            }
            Err(error) => {
                let reason = error.to_string();
                all_unknown.push(unknown(reason.lines().next().unwrap_or_default(), true));
            }
        }
    }
    (removals, all_unknown)
}

/// Listings that lead to something: as often as it takes until two in a row are alike. The library
/// does not tell when a program is killed before it has listed all.
///
/// Those that are as they should be need no second: one that is cut off is not.
fn whole<T: PartialEq>(
    list: impl Fn() -> Result<Vec<T>, IptablesError>,
    is_as_planned: impl Fn(&[T]) -> bool,
) -> Result<Vec<T>, IptablesError> {
    let mut listed = list()?;
    for _ in 0..ATTEMPTS {
        if is_as_planned(&listed) {
            return Ok(listed);
        }
        let again = list()?;
        if again == listed {
            return Ok(listed);
        }
        listed = again;
    }
    Err(IptablesError::Unsettled)
}

/// All chains of `nf_tables`, each after the table it is in.
pub(super) fn chain_names(socket: &Socket) -> Result<Vec<(String, String)>, Errno> {
    let chains = tables::chains(socket)?;
    Ok(chains.iter().map(|chain| (chain.text(CHAIN_TABLE), chain.text(CHAIN_NAME))).collect())
}

fn read_tables() -> Result<Tables, IptablesError> {
    let socket = match Socket::netfilter() {
        Err(error) if error.is_no_nf_tables() => None,
        socket => Some(socket.map_err(Box::new)?),
    };
    Tables::read(socket.as_ref()).map_err(|errno| IptablesError::Tables(errno.into()))
}

fn has_rules(tools: Tools, tables: &Tables) -> Result<bool, IptablesError> {
    for family in FAMILIES {
        for table in tables.of(tools.variant, family) {
            if run::start(tools, family, table)?.wait()?.has_rules() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// What the tools list of both families.
fn all_listings(tools: Tools, tables: &Tables) -> Result<Vec<Listed>, IptablesError> {
    let mut all = Vec::new();
    let places = FAMILIES
        .into_iter()
        .flat_map(|family| tables.of(tools.variant, family).map(move |table| (family, table)));
    // Each table takes a program of its own; they run side by side.
    let running = places
        .map(|(family, table)| Ok((family, run::start(tools, family, table)?)))
        .collect::<Result<Vec<_>, IptablesError>>()?;
    for (family, listing) in running {
        all.push((family, listing.wait()?));
    }
    Ok(all)
}

fn listings(tools: Tools, family: Family, tables: &Tables) -> Result<Vec<Listing>, IptablesError> {
    tables.of(tools.variant, family).map(|table| run::start(tools, family, table)?.wait()).collect()
}

type Listed = (Family, Listing);

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// Others change rules seldom, and programs are killed seldom.
const ATTEMPTS: u32 = 10;
