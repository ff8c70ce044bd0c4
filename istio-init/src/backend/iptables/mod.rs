//! Rules by iptables programs.
//!
//! Each family takes one run of `iptables-restore`, and none if nothing changes. Existing tables
//! are listed first, so a clean pod needs no listing. The kernel replaces each table atomically.
//! The next run repairs one that was killed between two tables or families.

mod comparison;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod listing;
mod origin;
mod parse;
mod run;

use std::fmt;

pub use error::IptablesError;

use super::Installer;
use super::foreign::{ForeignChain, last_priority};
use super::nftables::iptables_tables::Tables;
use crate::netlink::privileges::{Capability, CapabilityState, Privileges};
use crate::netlink::socket::Socket;
use crate::plan::{Chain, Plan};
use crate::render::iptables::{chain_name, families, sections, table_name};
use crate::types::family::Family;
use crate::types::iptables_variant::{IptablesBinaries, Variant};
use crate::verify::Side;
use crate::verify::observed::ObservedTable;
use listing::{Change, Listing};

/// Finds the requested iptables, or any that works if none is requested.
pub fn find(forced: Option<Variant>) -> Result<IptablesBinaries, IptablesError> {
    match forced {
        Some(variant) => IptablesBinaries::find(variant).ok_or(IptablesError::NoVariant(variant)),
        None => usable(&read_tables()?).ok_or(IptablesError::NoBinaries),
    }
}

/// Chooses an iptables if the user requested none; `None` if no iptables can work.
///
/// As in Istio, legacy is preferred if it has rules, since their owner uses it. Availability is
/// found by reading: no test rule is written.
pub fn choose() -> Option<IptablesBinaries> {
    read_tables().ok().and_then(|tables| usable(&tables))
}

fn usable(tables: &Tables) -> Option<IptablesBinaries> {
    let legacy = IptablesBinaries::find(Variant::Legacy).filter(|_| may_use_legacy());
    let nft = IptablesBinaries::find(Variant::Nft).filter(|_| tables.answers);
    match (legacy, nft) {
        // An iptables that cannot list rules is not preferred.
        (Some(legacy), Some(_)) if has_rules(legacy, tables).unwrap_or(false) => Some(legacy),
        (legacy, nft) => nft.or(legacy),
    }
}

/// True if this process may run iptables-legacy, which needs root to list the tables, besides
/// capabilities.
fn may_use_legacy() -> bool {
    let privileges = Privileges::current();
    rustix::process::geteuid().is_root()
        && [Capability::NetAdmin, Capability::NetRaw]
            .into_iter()
            .all(|capability| privileges.holds(capability) == CapabilityState::Effective)
}

/// Replaces the rules that these binaries installed with the plan. Changes nothing if the plan is
/// installed already.
pub fn apply(binaries: IptablesBinaries, plan: &Plan) -> Result<(), IptablesError> {
    if families(plan).contains(&Family::V6) && !binaries.has_family(Family::V6) {
        return Err(IptablesError::NoFamily(binaries.restore_program(Family::V6)));
    }
    let changes_of = |all: &[Listed]| FAMILIES.map(|family| (family, change(all, plan, family)));
    let is_nothing = |all: &[Listed]| changes_of(all).iter().all(|(_, change)| change.is_empty());
    let listings = stable_listing(|| all_listings(binaries, &read_tables()?), is_nothing)?;
    let mut done = None;
    for (family, change) in changes_of(&listings) {
        if change.is_empty() {
            continue;
        }
        run::restore(binaries, family, &change).map_err(|error| match (error, done) {
            (rest @ IptablesError::Start { .. }, Some(family)) => {
                IptablesError::HalfDone { family, rest: Box::new(rest) }
            }
            (error, _) => error,
        })?;
        done = Some(family);
    }
    Ok(())
}

/// Returns the change from the listed tables of a family to the planned ones.
fn change(all: &[Listed], plan: &Plan, family: Family) -> Change {
    let of_family = all.iter().filter(|(of, _)| *of == family);
    let of_family: Vec<&Listing> = of_family.map(|(_, listing)| listing).collect();
    Change::between(&of_family, &sections(plan, family))
}

/// Compares the rules that these binaries installed with the plan, line by line.
pub fn compare(
    binaries: IptablesBinaries,
    plan: &Plan,
) -> Result<Vec<(Side, String)>, IptablesError> {
    let compared = |all: &[Listed]| comparison::compared(plan, all);
    let is_equal = |all: &[Listed]| compared(all).iter().all(|(side, _)| *side == Side::Both);
    Ok(compared(&stable_listing(|| all_listings(binaries, &read_tables()?), is_equal)?))
}

/// Returns the rules that these binaries installed, and the foreign rules in the kernel's chains
/// that no plan can express.
pub fn observe(
    binaries: IptablesBinaries,
) -> Result<(Vec<ObservedTable>, Vec<String>), IptablesError> {
    Ok(parse::observed(&stable_listing(|| all_listings(binaries, &read_tables()?), |_| false)?))
}

/// True if iptables-legacy has rules of an earlier run. Returns warnings about tables that cannot
/// be listed.
pub fn has_legacy() -> Result<(bool, Vec<String>), IptablesError> {
    let (removals, unknown) = legacy_removals(&read_tables()?);
    Ok((!removals.is_empty(), warnings(&unknown)))
}

/// Returns the chains of iptables-legacy that can decide before the rules of a plan. Tables that
/// cannot be listed are left out.
pub fn foreign_legacy_chains(plan: &Plan) -> Vec<ForeignChain> {
    let (Some(binaries), Ok(tables)) = (IptablesBinaries::find(Variant::Legacy), read_tables())
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for family in families(plan) {
        for listing in listings(binaries, family, &tables).unwrap_or_default() {
            for chain in [Chain::Prerouting, Chain::Output] {
                let (Some(base), name) = (chain.base(listing.table), chain_name(chain)) else {
                    continue;
                };
                let is_early = last_priority(plan, base.hook).is_some_and(|it| base.priority <= it);
                if is_early && listing.can_decide(&name) {
                    found.push(ForeignChain {
                        owner: Installer::Iptables(Variant::Legacy),
                        family: Some(family),
                        table: table_name(listing.table).to_owned(),
                        chain: name,
                        hook: base.hook,
                        priority: base.priority,
                    });
                }
            }
        }
    }
    found
}

/// Removes the rules that iptables-legacy installed. Returns warnings about tables that cannot be
/// listed.
pub fn remove_legacy() -> Result<Vec<String>, IptablesError> {
    Ok(warnings(&remove_known_legacy()?))
}

/// Removes the rules of iptables-legacy. Returns an error if a program exists and fails, after
/// everything else is removed.
pub fn remove_all_legacy() -> Result<Vec<String>, IptablesError> {
    let unknown = remove_known_legacy()?;
    match unknown.iter().find(|unknown| unknown.is_failure) {
        Some(failed) => Err(IptablesError::Unreadable(failed.to_string())),
        None => Ok(warnings(&unknown)),
    }
}

fn remove_known_legacy() -> Result<Vec<UnreadableTables>, IptablesError> {
    let (removals, unknown) = legacy_removals(&read_tables()?);
    for (binaries, family, change) in removals {
        run::restore(binaries, family, &change)?;
    }
    Ok(unknown)
}

/// Returns the `iptables-restore` input that [`remove_legacy`] is equivalent to, each part under a
/// comment with its program.
pub fn legacy_removal_script() -> Result<(String, Vec<String>), IptablesError> {
    let (removals, unknown) = legacy_removals(&read_tables()?);
    let texts = removals.into_iter().map(|(binaries, family, change)| {
        format!("# {} --noflush\n{}", binaries.restore_program(family), change.text)
    });
    Ok((texts.collect(), warnings(&unknown)))
}

/// Legacy tables of a family that cannot be listed.
struct UnreadableTables {
    family: Family,
    tables: String,
    reason: String,
    /// True if the program exists and fails.
    is_failure: bool,
}

impl fmt::Display for UnreadableTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, tables, reason, .. } = self;
        write!(
            f,
            "{family}: iptables-legacy has tables ({tables}), and {reason}; rules of an earlier \
             run in them are still in force"
        )
    }
}

fn warnings(unknown: &[UnreadableTables]) -> Vec<String> {
    unknown.iter().map(ToString::to_string).collect()
}

fn legacy_removals(
    tables: &Tables,
) -> (Vec<(IptablesBinaries, Family, Change)>, Vec<UnreadableTables>) {
    let mut removals = Vec::new();
    let mut all_unknown = Vec::new();
    let binaries = IptablesBinaries::find(Variant::Legacy);
    for family in FAMILIES {
        let names: Vec<&str> = tables.in_family(Variant::Legacy, family).map(table_name).collect();
        if names.is_empty() {
            continue;
        }
        let unknown = |reason: &str, is_failure| {
            let (tables, reason) = (names.join(", "), reason.to_owned());
            UnreadableTables { family, tables, reason, is_failure }
        };
        let Some(binaries) = binaries else {
            let reason = "PATH has no iptables-legacy to list them";
            all_unknown.push(unknown(reason, false));
            continue;
        };
        match stable_listing(|| listings(binaries, family, tables), |_| false) {
            Ok(listings) => {
                let change = Change::between(&listings.iter().collect::<Vec<_>>(), &[]);
                if !change.is_empty() {
                    removals.push((binaries, family, change));
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

/// Lists until two listings in a row are equal: the library does not report a program that is
/// killed in the middle of its output.
///
/// A listing that equals the plan needs no second one, since a truncated listing never does.
fn stable_listing<T: PartialEq>(
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

fn read_tables() -> Result<Tables, IptablesError> {
    let socket = match Socket::netfilter() {
        Err(error) if error.is_no_nf_tables() => None,
        socket => Some(socket.map_err(Box::new)?),
    };
    Tables::read(socket.as_ref()).map_err(|errno| IptablesError::Tables(errno.into()))
}

fn has_rules(binaries: IptablesBinaries, tables: &Tables) -> Result<bool, IptablesError> {
    for family in FAMILIES {
        for table in tables.in_family(binaries.variant, family) {
            if run::start(binaries, family, table)?.wait()?.has_rules() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Lists the tables of both families.
fn all_listings(binaries: IptablesBinaries, tables: &Tables) -> Result<Vec<Listed>, IptablesError> {
    let mut all = Vec::new();
    let places = FAMILIES.into_iter().flat_map(|family| {
        tables.in_family(binaries.variant, family).map(move |table| (family, table))
    });
    // One program per table; they run in parallel.
    let running = places
        .map(|(family, table)| Ok((family, run::start(binaries, family, table)?)))
        .collect::<Result<Vec<_>, IptablesError>>()?;
    for (family, listing) in running {
        all.push((family, listing.wait()?));
    }
    Ok(all)
}

fn listings(
    binaries: IptablesBinaries,
    family: Family,
    tables: &Tables,
) -> Result<Vec<Listing>, IptablesError> {
    tables
        .in_family(binaries.variant, family)
        .map(|table| run::start(binaries, family, table)?.wait())
        .collect()
}

type Listed = (Family, Listing);

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// Other processes change rules seldom, and programs are killed seldom.
const ATTEMPTS: u32 = 10;
