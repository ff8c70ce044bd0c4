//! By which means rules are installed: nftables over netlink, or the program iptables.

use std::fmt;

use thiserror::Error;

use crate::args::Args;
use crate::complaint::{Complaint, Fault};
use crate::flag::Flag;
use crate::kernel::iptables::{IptablesError, Tools, Variant};
use crate::kernel::{self, KernelError, Removals, iptables};
use crate::plan::Plan;
use crate::render;

/// What the user wants rules to be installed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// By iptables where one works, else by nftables.
    Auto,
    /// By iptables, and by this variant when one is named.
    Iptables(Option<Variant>),
    /// By nftables.
    Nftables,
}

/// What rules are installed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// By these programs.
    Iptables(Tools),
    /// By this process.
    Nftables,
}

/// What stands in the way of rules, or of their removal.
#[derive(Debug, Error)]
pub enum BackendError {
    /// The kernel refuses.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// iptables refuses, or cannot.
    #[error(transparent)]
    Iptables(#[from] IptablesError),
    /// Nobody asked for either, and neither works.
    #[error("{nftables}\nbesides, {iptables}")]
    Neither {
        /// What nftables says.
        nftables: Box<BackendError>,
        /// What iptables says.
        iptables: IptablesError,
    },
}

impl Wish {
    /// What the flags say.
    pub fn read(args: &Args) -> Result<Self, Vec<Complaint>> {
        let variant = args.flag(Flag::ForceIptablesBinary);
        let forced = match &*variant.text {
            "" => Ok(None),
            name => name.parse().map(Some),
        };
        let backend = args.flag(Flag::Backend);
        let is_native = args.is_on(Flag::NativeNftables);
        let wish = match &*backend.text {
            // As in Istio, the one flag makes the other mean nothing.
            "" | "auto" if is_native => Ok(Self::Nftables),
            "nftables" => Ok(Self::Nftables),
            "" | "auto" => Ok(match forced {
                Ok(Some(variant)) => Self::Iptables(Some(variant)),
                _ => Self::Auto,
            }),
            "iptables" if is_native => {
                let fault = Fault::new(format!("contradicts {}", Flag::NativeNftables));
                Err(fault.hint("leave one of the two out"))
            }
            "iptables" => Ok(Self::Iptables(forced.clone().unwrap_or_default())),
            _ => Err(Fault::new("is not a backend").hint("use auto, iptables or nftables")),
        };
        let complaint = |typed: &crate::args::Typed, fault| Complaint {
            source: typed.source.to_string(),
            value: typed.text.clone(),
            fault,
        };
        match (wish, forced) {
            (Ok(wish), Ok(_)) => Ok(wish),
            (wish, forced) => {
                let wrong_backend = wish.err().map(|fault| complaint(backend, fault));
                let wrong_variant = forced.err().map(|fault| complaint(variant, fault));
                Err(wrong_backend.into_iter().chain(wrong_variant).collect())
            }
        }
    }

    /// What the machine has of it.
    pub fn choose(self) -> Result<Backend, IptablesError> {
        match self {
            Self::Nftables => Ok(Backend::Nftables),
            Self::Auto => Ok(match iptables::choose() {
                Some(tools) => Backend::Iptables(tools.replaceable()),
                None => Backend::Nftables,
            }),
            Self::Iptables(forced) => iptables::find(forced).map(Backend::Iptables),
        }
    }

    /// The plan as a script for nft, as text for `iptables-restore` where somebody asked for that.
    ///
    /// Without a backend named, what a dry run prints does not depend on the image it runs in.
    pub fn script(self, plan: &Plan) -> String {
        match self {
            Self::Iptables(_) => render::iptables::script(plan),
            Self::Auto | Self::Nftables => render::nft::script(plan),
        }
    }
}

impl Backend {
    /// Replaces what an earlier run installed, by any backend, by the plan; returns warnings.
    ///
    /// What another backend installed goes after the plan is in force, so connections are captured
    /// at any moment. Where nobody asked for iptables and it does not work, nftables takes its
    /// place, with a warning.
    pub fn apply(self, plan: &Plan) -> Result<Vec<String>, BackendError> {
        match self {
            Self::Nftables => {
                kernel::apply(plan)?;
                Ok(iptables::remove_legacy()?)
            }
            Self::Iptables(tools) => match apply_by(tools, plan) {
                Err(BackendError::Iptables(error)) if tools.is_replaceable => {
                    match Self::Nftables.apply(plan) {
                        Ok(mut warnings) => {
                            warnings.insert(0, replaced(&error));
                            Ok(warnings)
                        }
                        Err(nftables) => Err(BackendError::Neither {
                            nftables: Box::new(nftables),
                            iptables: error,
                        }),
                    }
                }
                ended => ended,
            },
        }
    }
}

/// The first line of the complaint: its hint is for those who want iptables.
fn replaced(error: &IptablesError) -> String {
    let error = error.to_string();
    let reason = error.lines().next().unwrap_or_default();
    format!("nftables is used in place of iptables: {reason}")
}

fn apply_by(tools: Tools, plan: &Plan) -> Result<Vec<String>, BackendError> {
    let mut warnings = Vec::new();
    kernel::with_surroundings(plan, || {
        iptables::apply(tools, plan)?;
        match tools.variant {
            Variant::Nft => {
                warnings = iptables::remove_legacy()?;
                Ok(kernel::remove_own_tables()?)
            }
            Variant::Legacy => Ok::<(), BackendError>(kernel::remove_tables()?),
        }
    })?;
    Ok(warnings)
}

/// Removes what earlier runs installed by any backend, whatever their settings were; returns
/// warnings.
pub fn clean_up() -> Result<Vec<String>, BackendError> {
    kernel::clean_up()?;
    Ok(iptables::remove_legacy()?)
}

/// What [`clean_up`] would do now, as commands of nft and ip and texts for `iptables-restore`, and
/// warnings. Changes nothing.
///
/// Where iptables-legacy has no rules, nft takes the whole: the rest is in comments.
pub fn removal_script() -> Result<(String, Vec<String>), BackendError> {
    let Removals { by_nft, by_ip } = kernel::removals()?;
    let (by_iptables, warnings) = iptables::legacy_removal_script()?;
    let lines = |lines: Vec<String>| lines.into_iter().map(|line| line + "\n").collect::<String>();
    let besides = by_ip.into_iter().map(|command| format!("# besides: {command}")).collect();
    let mut script = lines(by_nft) + &lines(besides) + &by_iptables;
    if script.is_empty() {
        script.push_str("# nothing of an earlier run is installed\n");
    }
    Ok((script, warnings))
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nftables => f.write_str("nftables"),
            Self::Iptables(tools) => write!(f, "iptables ({})", tools.variant),
        }
    }
}
