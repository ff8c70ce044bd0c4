//! By which means rules are installed: nftables over netlink, or the program iptables.

use std::fmt;

use thiserror::Error;

use crate::args::Args;
use crate::complaint::{Complaint, Fault};
use crate::flag::Flag;
use crate::kernel::iptables::{IptablesError, Tools, Variant};
use crate::kernel::{self, KernelError, iptables};
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
            "" | "auto" | "nftables" if is_native => Ok(Self::Nftables),
            "nftables" => Ok(Self::Nftables),
            "" => Ok(match forced {
                Ok(Some(variant)) => Self::Iptables(Some(variant)),
                _ => Self::Nftables,
            }),
            "auto" => Ok(match forced {
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
            Self::Auto => Ok(match iptables::choose(None)? {
                Some(tools) => Backend::Iptables(tools.replaceable()),
                None => Backend::Nftables,
            }),
            Self::Iptables(forced) => {
                iptables::choose(forced)?.map(Backend::Iptables).ok_or(IptablesError::NoTools)
            }
        }
    }
}

impl Backend {
    /// Replaces what an earlier run installed, by any backend, by the plan.
    ///
    /// What another backend installed goes after the plan is in force, so connections are captured
    /// at any moment. Where nobody asked for iptables and it cannot be run, nftables takes its
    /// place; that is the warning which is returned.
    pub fn apply(self, plan: &Plan) -> Result<Option<String>, BackendError> {
        match self {
            Self::Nftables => {
                iptables::check_removable()?;
                kernel::apply(plan)?;
                iptables::remove_all_but(None)?;
                Ok(None)
            }
            Self::Iptables(tools) => match apply_by(tools, plan) {
                Err(BackendError::Iptables(error))
                    if tools.is_replaceable && error.is_no_program() =>
                {
                    Self::Nftables.apply(plan)?;
                    Ok(Some(format!("nftables is used in place of iptables: {error}")))
                }
                ended => ended.map(|()| None),
            },
        }
    }

    /// The plan as a script for nft, as text for `iptables-restore` where somebody asked for that.
    ///
    /// Without a backend named, what a dry run prints does not depend on the image it runs in.
    pub fn script(self, plan: &Plan) -> String {
        match self {
            Self::Iptables(tools) if !tools.is_replaceable => render::iptables::script(plan),
            _ => render::nft::script(plan),
        }
    }
}

fn apply_by(tools: Tools, plan: &Plan) -> Result<(), BackendError> {
    kernel::with_surroundings(plan, || {
        iptables::apply(tools, plan)?;
        iptables::remove_all_but(Some(tools))?;
        Ok(kernel::remove_tables()?)
    })
}

/// Removes what earlier runs installed by any backend, whatever their settings were.
pub fn clean_up() -> Result<(), BackendError> {
    kernel::clean_up()?;
    iptables::remove_all_but(None)?;
    Ok(iptables::check_removable()?)
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nftables => f.write_str("nftables"),
            Self::Iptables(tools) => write!(f, "iptables ({})", tools.variant),
        }
    }
}
