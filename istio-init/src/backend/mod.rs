//! Backends that install rules: nftables over netlink, or iptables programs.

pub mod foreign;
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

/// Backend requested by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// iptables if one works, else nftables.
    Auto,
    /// iptables, of this variant if one is named.
    Iptables(Option<Variant>),
    /// nftables.
    Nftables,
}

/// Backend that installs rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// These programs.
    Iptables(IptablesBinaries),
    /// This process, over netlink.
    Nftables,
}

/// Backend that has installed rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installer {
    /// nftables.
    Nftables,
    /// This variant of iptables.
    Iptables(Variant),
}

/// Error while installing, listing or removing rules.
#[derive(Debug, Error)]
pub enum BackendError {
    /// The kernel returns an error.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// iptables fails or is missing.
    #[error(transparent)]
    Iptables(#[from] IptablesError),
    /// The installed rules are not a plan.
    #[error(transparent)]
    NotAPlan(#[from] NotAPlan),
    /// Rules exist that only an iptables can list, and PATH has none.
    #[error(
        "rules are installed by iptables-{0}, and PATH has no iptables-{0} to list them; \
         hint: run this in an image that has it"
    )]
    NoLister(Variant),
    /// No backend was requested, and neither works.
    #[error("{nftables}\niptables does not work either: {iptables}")]
    Neither {
        /// Error of nftables.
        nftables: Box<BackendError>,
        /// Error of iptables.
        iptables: IptablesError,
    },
}

impl BackendChoice {
    /// Parses the flags. Also returns warnings.
    pub fn from_args(args: &Args) -> Result<(Self, Vec<String>), Vec<InputError>> {
        let variant = args.flag(Flag::ForceIptablesBinary);
        let forced = match &*variant.text {
            "" => Ok(None),
            name => name.parse().map(Some),
        };
        let backend = args.flag(Flag::Backend);
        let is_native = args.is_on(Flag::NativeNftables);
        let choice = match &*backend.text {
            // As in Istio, --native-nftables overrides --force-iptables-binary.
            "" | "auto" if is_native => Ok(Self::Nftables),
            "nftables" => Ok(Self::Nftables),
            "" | "auto" => Ok(match forced {
                Ok(Some(variant)) => Self::Iptables(Some(variant)),
                _ => Self::Auto,
            }),
            "iptables" if is_native => {
                let error = ValueError::new(format!("contradicts {}", Flag::NativeNftables));
                Err(error.hint("use only one of them"))
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

    /// Returns the backend to verify: the requested one, or with `auto` the one that installed the
    /// rules.
    pub fn choose_among(self, installers: &[Installer]) -> Result<Backend, BackendError> {
        match (self, installers) {
            (Self::Auto, [only]) => only.backend(),
            _ => Ok(self.choose()?),
        }
    }

    /// Returns the requested backend, or with `auto` one that works on this machine.
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

    /// Returns the plan in the form of the backend that a run would choose: an nft script, or input
    /// for `iptables-restore`.
    pub fn script(self, plan: &Plan) -> Result<String, IptablesError> {
        let by_iptables = match self {
            // The text may be run in another image.
            Self::Iptables(_) => true,
            Self::Auto | Self::Nftables => matches!(self.choose()?, Backend::Iptables(_)),
        };
        Ok(if by_iptables { render::iptables::script(plan) } else { render::nft::script(plan) })
    }
}

impl Backend {
    /// Replaces the rules of earlier runs, by whichever backend, with the plan. Returns the backend
    /// that installed it, and warnings.
    ///
    /// Rules of other backends are removed after the plan is installed, so traffic is captured at
    /// any moment. If iptables was not requested and fails, nftables is used instead, with a
    /// warning.
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

    /// Returns the installer, with the number of its lines for a plan if that is another one:
    /// iptables has one line per element of a list and per family.
    pub fn words(self, plan: &Plan) -> String {
        let text = match self {
            Self::Nftables => String::new(),
            Self::Iptables(_) => render::iptables::script(plan),
        };
        let installer = self.installer();
        match text.lines().filter(|line| line.starts_with("-A ")).count() {
            0 => installer.to_string(),
            lines => format!("{installer} ({lines} lines)"),
        }
    }

    /// Returns the installer of this backend's rules.
    pub fn installer(self) -> Installer {
        match self {
            Self::Nftables => Installer::Nftables,
            Self::Iptables(binaries) => Installer::Iptables(binaries.variant),
        }
    }

    /// Compares the rules, addresses and routes that this backend installed with the plan.
    pub fn compare(self, plan: &Plan) -> Result<Comparison, BackendError> {
        let binaries = match self {
            Self::Nftables => return Ok(verify::compare(plan, &nftables::observe()?)),
            Self::Iptables(binaries) => binaries,
        };
        let mut lines = iptables::compare(binaries, plan)?;
        let observed = prerequisites::observe_with(Vec::new())?;
        let (planned, found) =
            (verify::planned_prerequisites(plan), verify::observed_prerequisites(&observed));
        lines.extend(verify::differing(&planned, &found));
        Ok(Comparison { lines })
    }
}

impl Installer {
    /// Returns the backend that installs rules in the same way.
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

/// Returns the backends that have rules installed, and warnings.
pub fn installers() -> Result<(Vec<Installer>, Vec<String>), BackendError> {
    let mut installers = Vec::new();
    installers.extend(nftables::has_tables()?.then_some(Installer::Nftables));
    let by_nft = nftables::has_iptables_nft_rules()?;
    installers.extend(by_nft.then_some(Installer::Iptables(Variant::Nft)));
    let (by_legacy, warnings) = iptables::has_legacy()?;
    installers.extend(by_legacy.then_some(Installer::Iptables(Variant::Legacy)));
    Ok((installers, warnings))
}

/// Returns the installed rules of any backend, and warnings.
pub fn observe() -> Result<(Observed, Vec<String>), BackendError> {
    let (installers, mut warnings) = installers()?;
    let [installer] = &*installers else {
        // Without rules, address and routes are of no use.
        let names = installers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let none = names.is_empty();
        let nothing = (Observed::default(), warnings);
        return if none { Ok(nothing) } else { Err(NotAPlan::Several(names).into()) };
    };
    let observed = match installer.backend()? {
        Backend::Nftables => nftables::observe()?,
        Backend::Iptables(binaries) => {
            let (tables, left_out) = iptables::observe(binaries)?;
            let warning = |rule| format!("foreign rule left out: {rule}");
            warnings.extend(left_out.into_iter().map(warning));
            prerequisites::observe_with(tables)?
        }
    };
    Ok((observed, warnings))
}

/// True if nftables may replace these programs after they failed. Rules of iptables-legacy can only
/// be removed by that program, which cannot be started; those of iptables-nft are removed over
/// netlink.
fn may_replace(binaries: IptablesBinaries, error: &IptablesError) -> bool {
    let is_stuck = matches!(error, IptablesError::HalfDone { .. });
    binaries.allows_fallback && !(is_stuck && binaries.variant == Variant::Legacy)
}

/// Returns the first line of the error. Its hint is for users who need iptables.
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

/// Removes the rules of earlier runs by any backend and with any settings. Returns warnings. Fails
/// if an existing iptables cannot list its rules.
pub fn clean_up(_: &Lock) -> Result<Vec<String>, BackendError> {
    nftables::remove_all_tables()?;
    prerequisites::remove()?;
    Ok(iptables::remove_all_legacy()?)
}

/// Returns the commands that [`clean_up`] is equivalent to, and warnings: commands for nft and ip,
/// and input for `iptables-restore`.
///
/// Without rules of iptables-legacy, nft accepts the whole text: the rest is comments.
pub fn removal_script() -> Result<(String, Vec<String>), BackendError> {
    let by_nft = nftables::removal_commands()?;
    let by_ip = prerequisites::removal_commands()?;
    let (by_iptables, warnings) = iptables::legacy_removal_script()?;
    let lines = |lines: Vec<String>| lines.into_iter().map(|line| line + "\n").collect::<String>();
    let besides = by_ip.into_iter().map(|command| format!("# also run: {command}")).collect();
    let mut script = lines(by_nft) + &lines(besides) + &by_iptables;
    if script.is_empty() {
        script.push_str("# no rules of an earlier run are installed\n");
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
    fn backend_flags_select_a_backend_and_warn() {
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
