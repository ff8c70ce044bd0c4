//! By which means rules are installed: nftables over netlink, or the program iptables.

pub mod iptables;
pub mod nftables;
mod prerequisites;

use std::fmt;

use thiserror::Error;

use crate::args::Args;
use crate::args::flags::Flag;
use crate::netlink::error::KernelError;
use crate::netlink::netns_lock::Lock;
use crate::plan::Plan;
use crate::render;
use crate::types::input_error::{InputError, ValueError};
use crate::types::iptables_variant::{IptablesBinaries, Variant};
use crate::verify;
use crate::verify::Comparison;
use crate::verify::observed::{NotAPlan, Observed};
use iptables::IptablesError;

/// What the user wants rules to be installed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
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
    Iptables(IptablesBinaries),
    /// By this process.
    Nftables,
}

/// By which means rules were installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installer {
    /// By nftables.
    Nftables,
    /// By this variant of iptables.
    Iptables(Variant),
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
    /// What is installed is no plan.
    #[error(transparent)]
    NotAPlan(#[from] NotAPlan),
    /// Rules are there that only an iptables could list, and there is none.
    #[error(
        "rules are installed by iptables-{0}, and PATH has no iptables-{0} to list them\n\
         hint: ask in an image that has it"
    )]
    NoLister(Variant),
    /// Nobody asked for either, and neither works.
    #[error("{nftables}\nbesides, {iptables}")]
    Neither {
        /// What nftables says.
        nftables: Box<BackendError>,
        /// What iptables says.
        iptables: IptablesError,
    },
}

impl BackendChoice {
    /// What the flags say, and what the user should know although it is valid.
    pub fn from_args(args: &Args) -> Result<(Self, Vec<String>), Vec<InputError>> {
        let variant = args.flag(Flag::ForceIptablesBinary);
        let forced = match &*variant.text {
            "" => Ok(None),
            name => name.parse().map(Some),
        };
        let backend = args.flag(Flag::Backend);
        let is_native = args.is_on(Flag::NativeNftables);
        let choice = match &*backend.text {
            // As in Istio, the one flag makes the other mean nothing.
            "" | "auto" if is_native => Ok(Self::Nftables),
            "nftables" => Ok(Self::Nftables),
            "" | "auto" => Ok(match forced {
                Ok(Some(variant)) => Self::Iptables(Some(variant)),
                _ => Self::Auto,
            }),
            "iptables" if is_native => {
                let error = ValueError::new(format!("contradicts {}", Flag::NativeNftables));
                Err(error.hint("leave one of the two out"))
            }
            "iptables" => Ok(Self::Iptables(forced.clone().unwrap_or_default())),
            _ => Err(ValueError::new("is not a backend").hint("use auto, iptables or nftables")),
        };
        let input_error = |typed: &crate::args::RawValue, error| InputError {
            source: typed.source.to_string(),
            value: typed.text.clone(),
            error,
        };
        match (choice, forced) {
            (Ok(choice), Ok(forced)) => {
                let is_idle = choice == Self::Nftables && forced.is_some();
                let warning = || {
                    let source = &variant.source;
                    format!("{source}: has no effect: the rules are installed by nftables")
                };
                Ok((choice, is_idle.then(warning).into_iter().collect()))
            }
            (choice, forced) => {
                let wrong_backend = choice.err().map(|error| input_error(backend, error));
                let wrong_variant = forced.err().map(|error| input_error(variant, error));
                Err(wrong_backend.into_iter().chain(wrong_variant).collect())
            }
        }
    }

    /// What is to be compared with a plan: where nobody asked for a backend, what is installed is
    /// compared, whatever installed it.
    pub fn choose_among(self, installers: &[Installer]) -> Result<Backend, BackendError> {
        match (self, installers) {
            (Self::Auto, [only]) => only.backend(),
            _ => Ok(self.choose()?),
        }
    }

    /// What the machine has of it.
    pub fn choose(self) -> Result<Backend, IptablesError> {
        match self {
            Self::Nftables => Ok(Backend::Nftables),
            Self::Auto => Ok(match iptables::choose() {
                Some(binaries) => Backend::Iptables(binaries.with_fallback()),
                None => Backend::Nftables,
            }),
            Self::Iptables(forced) => iptables::find(forced).map(Backend::Iptables),
        }
    }

    /// The plan in the form of the backend that a run would take: a script for nft, or text for
    /// `iptables-restore`.
    pub fn script(self, plan: &Plan) -> Result<String, IptablesError> {
        let by_iptables = match self {
            // The image that runs the text may be another.
            Self::Iptables(_) => true,
            Self::Auto | Self::Nftables => matches!(self.choose()?, Backend::Iptables(_)),
        };
        Ok(if by_iptables { render::iptables::script(plan) } else { render::nft::script(plan) })
    }
}

impl Backend {
    /// Replaces what an earlier run installed, by any backend, by the plan. Returns the backend
    /// that has installed it, and warnings.
    ///
    /// What another backend installed goes after the plan is in force, so connections are captured
    /// at any moment. Where nobody asked for iptables and it does not work, nftables takes its
    /// place, with a warning.
    pub fn apply(self, plan: &Plan, _: &Lock) -> Result<(Self, Vec<String>), BackendError> {
        self.replace(plan)
    }

    fn replace(self, plan: &Plan) -> Result<(Self, Vec<String>), BackendError> {
        match self {
            Self::Nftables => {
                nftables::apply(plan)?;
                Ok((self, iptables::remove_legacy()?))
            }
            Self::Iptables(binaries) => match apply_by(binaries, plan) {
                Err(BackendError::Iptables(error)) if may_replace(binaries, &error) => {
                    match Self::Nftables.replace(plan) {
                        Ok((by, mut warnings)) => {
                            warnings.insert(0, replaced(&error));
                            Ok((by, warnings))
                        }
                        Err(nftables) => Err(BackendError::Neither {
                            nftables: Box::new(nftables),
                            iptables: error,
                        }),
                    }
                }
                ended => ended.map(|warnings| (self, warnings)),
            },
        }
    }

    /// The number of rules that a plan has by it: iptables has a rule for each element of a list,
    /// and for each family.
    pub fn rules(self, plan: &Plan) -> usize {
        match self {
            Self::Nftables => plan.rules.len(),
            Self::Iptables(_) => {
                let text = render::iptables::script(plan);
                text.lines().filter(|line| line.starts_with("-A ")).count()
            }
        }
    }

    /// What its rules are installed by.
    pub fn installer(self) -> Installer {
        match self {
            Self::Nftables => Installer::Nftables,
            Self::Iptables(binaries) => Installer::Iptables(binaries.variant),
        }
    }

    /// What is installed by it against the plan, with addresses and routes.
    pub fn compare(self, plan: &Plan) -> Result<Comparison, BackendError> {
        let binaries = match self {
            Self::Nftables => return Ok(verify::compare(plan, &nftables::observe()?)),
            Self::Iptables(binaries) => binaries,
        };
        let mut lines = iptables::compare(binaries, plan)?;
        let observed = prerequisites::observe_with(Vec::new())?;
        let (planned, found) =
            (verify::surroundings_of(plan), verify::surroundings_found(&observed));
        lines.extend(verify::differing(&planned, &found));
        Ok(Comparison { lines })
    }
}

impl Installer {
    /// What would install rules in the same way.
    fn backend(self) -> Result<Backend, BackendError> {
        match self {
            Self::Nftables => Ok(Backend::Nftables),
            Self::Iptables(variant) => {
                let binaries =
                    IptablesBinaries::find(variant).ok_or(BackendError::NoLister(variant))?;
                Ok(Backend::Iptables(binaries.with_fallback()))
            }
        }
    }
}

/// By which means the rules are installed that are there: none, one, or several at once; and
/// warnings.
pub fn installers() -> Result<(Vec<Installer>, Vec<String>), BackendError> {
    let mut installers = Vec::new();
    installers.extend(nftables::has_tables()?.then_some(Installer::Nftables));
    let by_nft = nftables::has_iptables_nft_rules()?;
    installers.extend(by_nft.then_some(Installer::Iptables(Variant::Nft)));
    let (by_legacy, warnings) = iptables::has_legacy()?;
    installers.extend(by_legacy.then_some(Installer::Iptables(Variant::Legacy)));
    Ok((installers, warnings))
}

/// What is installed, whatever installed it, and warnings.
pub fn observe() -> Result<(Observed, Vec<String>), BackendError> {
    let (installers, mut warnings) = installers()?;
    let [installer] = &*installers else {
        // Without rules, what is beside them says nothing.
        let names = installers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let none = names.is_empty();
        let nothing = (Observed::default(), warnings);
        return if none { Ok(nothing) } else { Err(NotAPlan::Several(names).into()) };
    };
    let observed = match installer.backend()? {
        Backend::Nftables => nftables::observe()?,
        Backend::Iptables(binaries) => {
            let (tables, left_out) = iptables::observe(binaries)?;
            let warning = |rule| format!("somebody else's rule is left out: {rule}");
            warnings.extend(left_out.into_iter().map(warning));
            prerequisites::observe_with(tables)?
        }
    };
    Ok((observed, warnings))
}

/// True if nftables may take the place of these programs after they failed. Rules that
/// iptables-legacy has installed only that program can remove, and it cannot be started; those of
/// iptables-nft go by netlink.
fn may_replace(binaries: IptablesBinaries, error: &IptablesError) -> bool {
    let is_stuck = matches!(error, IptablesError::HalfDone { .. });
    binaries.allows_fallback && !(is_stuck && binaries.variant == Variant::Legacy)
}

/// The first line of the error: its hint is for those who want iptables.
fn replaced(error: &IptablesError) -> String {
    let error = error.to_string();
    let reason = error.lines().next().unwrap_or_default();
    format!("nftables is used in place of iptables: {reason}")
}

fn apply_by(binaries: IptablesBinaries, plan: &Plan) -> Result<Vec<String>, BackendError> {
    let mut warnings = Vec::new();
    prerequisites::install_with(plan, || {
        iptables::apply(binaries, plan)?;
        match binaries.variant {
            Variant::Nft => {
                warnings = iptables::remove_legacy()?;
                Ok(nftables::remove_tables()?)
            }
            Variant::Legacy => Ok::<(), BackendError>(nftables::remove_all_tables()?),
        }
    })?;
    Ok(warnings)
}

/// Removes what earlier runs installed by any backend, whatever their settings were; returns
/// warnings. It fails where an iptables that is there cannot tell what is left.
pub fn clean_up(_: &Lock) -> Result<Vec<String>, BackendError> {
    nftables::remove_all_tables()?;
    prerequisites::remove()?;
    Ok(iptables::remove_all_legacy()?)
}

/// What [`clean_up`] would do now, as commands of nft and ip and texts for `iptables-restore`, and
/// warnings. Changes nothing.
///
/// Where iptables-legacy has no rules, nft takes the whole: the rest is in comments.
pub fn removal_script() -> Result<(String, Vec<String>), BackendError> {
    let by_nft = nftables::removal_commands()?;
    let by_ip = prerequisites::removal_commands()?;
    let (by_iptables, warnings) = iptables::legacy_removal_script()?;
    let lines = |lines: Vec<String>| lines.into_iter().map(|line| line + "\n").collect::<String>();
    let besides = by_ip.into_iter().map(|command| format!("# besides: {command}")).collect();
    let mut script = lines(by_nft) + &lines(besides) + &by_iptables;
    if script.is_empty() {
        script.push_str("# nothing of an earlier run is installed\n");
    }
    Ok((script, warnings))
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nftables => f.write_str("nftables"),
            Self::Iptables(variant) => write!(f, "iptables-{variant}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::args::Environment;

    fn read(line: &str) -> (BackendChoice, Vec<String>) {
        let words = std::iter::once("istio-init").chain(line.split_whitespace());
        let args = Args::parse(words.map(OsString::from), &Environment::new()).expect("usage");
        BackendChoice::from_args(&args).expect(line)
    }

    #[test]
    fn auto_is_the_default_and_nftables_beats_the_named_iptables_aloud() {
        let idle = "--force-iptables-binary: has no effect: the rules are installed by nftables";
        for (line, choice, warnings) in [
            ("", BackendChoice::Auto, &[][..]),
            ("--backend auto", BackendChoice::Auto, &[]),
            ("--backend iptables", BackendChoice::Iptables(None), &[]),
            ("--force-iptables-binary legacy", BackendChoice::Iptables(Some(Variant::Legacy)), &[]),
            ("--native-nftables", BackendChoice::Nftables, &[]),
            ("--native-nftables --force-iptables-binary nft", BackendChoice::Nftables, &[idle]),
            ("--backend nftables --force-iptables-binary nft", BackendChoice::Nftables, &[idle]),
        ] {
            let (read, warned) = read(line);
            assert_eq!(read, choice, "{line}");
            assert_eq!(warned, warnings, "{line}");
        }
    }
}
