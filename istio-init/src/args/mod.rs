//! Unparsed values of flags and environment variables.
//!
//! Precedence is Istio's: command line, then a flag's additional variable, then the variable
//! derived from its name, then the default.

pub mod command;
pub mod env;
pub mod flags;
#[cfg(test)]
mod reference;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::args::command::NAMES;
use crate::args::env::Variable;
use crate::args::flags::{FLAGS, Flag, FlagKind, FlagSpec};
use crate::types::input_error::Escaped;

/// The environment of a process, as a value.
pub type Environment = BTreeMap<String, String>;

/// Unparsed value of each flag and variable, with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    flags: BTreeMap<Flag, RawValue>,
    variables: BTreeMap<Variable, String>,
    /// Warnings about invalid environment variables, which are ignored as in Istio.
    pub ignored: Vec<String>,
}

/// Unparsed value and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawValue {
    /// The text, unchanged.
    pub text: String,
    /// Flag, variable or default that gave the text.
    pub source: Source,
}

/// Source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag(Flag),
    /// An environment variable.
    Variable(&'static str),
    /// Default of the flag.
    Default(Flag),
}

impl Args {
    /// Parses a command line, which starts with the program's name, and an environment.
    ///
    /// Skips a first argument `istio-iptables`: injected containers pass it, since in Istio this
    /// program is a subcommand.
    pub fn parse(
        command_line: impl IntoIterator<Item = OsString>,
        environment: &Environment,
    ) -> Result<Self, clap::Error> {
        let mut words: Vec<OsString> = command_line.into_iter().collect();
        if words.get(1).is_some_and(|word| word == SUBCOMMAND) {
            words.remove(1);
        }
        if words.get(1).is_some_and(|word| word == "clean") {
            return Err(command().error(
                clap::error::ErrorKind::UnknownArgument,
                "`clean` was an argument of the 2018 script; today it is --cleanup-only",
            ));
        }
        Ok(Self::from_matches(&command().try_get_matches_from(words)?, environment))
    }

    /// Reads the flags of [`command`] from matches, which may contain other flags.
    pub(crate) fn from_matches(matches: &ArgMatches, environment: &Environment) -> Self {
        let mut ignored = Vec::new();
        let flags = FLAGS
            .iter()
            .map(|spec| {
                let typed = match matches.get_one::<String>(spec.long) {
                    Some(text) => RawValue { text: text.clone(), source: Source::Flag(spec.flag) },
                    None => without_command_line(spec, environment, &mut ignored),
                };
                (spec.flag, typed)
            })
            .collect();
        let variables = Variable::ALL
            .into_iter()
            .filter_map(|variable| Some((variable, environment.get(variable.name())?.clone())))
            .collect();
        Self { flags, variables, ignored }
    }

    /// Returns the text of a flag.
    pub fn flag(&self, flag: Flag) -> &RawValue {
        // `parse` fills the map from the table of all flags.
        &self.flags[&flag]
    }

    /// Returns the value of a flag of kind [`FlagKind::Bool`].
    pub fn is_on(&self, flag: Flag) -> bool {
        go_bool(&self.flag(flag).text) == Some(true)
    }

    /// Returns the value of a variable; `None` if it is unset.
    pub fn variable(&self, variable: Variable) -> Option<&str> {
        self.variables.get(&variable).map(String::as_str)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) | Self::Default(flag) => flag.fmt(f),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

/// Returns the grammar of the command line, including its help.
pub fn command() -> Command {
    let command = Command::new("istio-init")
        .version(program_version::text())
        .about("Programs Istio's traffic capture in the network namespace it runs in")
        .after_help(
            "A first argument `istio-iptables` is accepted and ignored.\n\
             Exit codes: 0 done, 1 rejected or failed, 2 invalid usage, 126 --run-validation \
             failed.",
        )
        .before_help(subcommands())
        .help_template(HELP)
        .args_override_self(true);
    FLAGS.iter().fold(command, |command, spec| command.arg(argument(spec)))
}

const HELP: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Returns the list of the subcommands, which stands before the many flags.
fn subcommands() -> String {
    let lines = NAMES.map(|name| format!("  {name:<9}{}\n", command::about(name)));
    let lines = lines.concat() + "  version  Prints the version and the commit\n";
    format!(
        "Commands, each with its own --help:\n{lines}\nWithout a command, it installs the rules \
         of the flags."
    )
}

fn argument(spec: &'static FlagSpec) -> Arg {
    let mut help = spec.help.to_owned();
    if let [variables @ .., last] = spec.variables {
        let names: Vec<&str> =
            std::iter::once(last).chain(variables.iter().rev()).copied().collect();
        help = format!("{help} [env: {}]", names.join(", "));
    }
    if !help.contains("[default: ") {
        let default = if spec.default.is_empty() { "none" } else { spec.default };
        help = format!("{help} [default: {default}]");
    }
    let arg = Arg::new(spec.long).long(spec.long).help(help).action(ArgAction::Set);
    let arg = match spec.short {
        Some(short) => arg.short(short),
        None => arg,
    };
    let kind = spec.kind;
    let arg = arg.value_parser(move |text: &str| match reads_as(kind, text) {
        Ok(()) => Ok(text.to_owned()),
        Err(expected) => Err(format!("expected {expected}")),
    });
    if kind == FlagKind::Bool {
        // `--flag` and `--flag=false`, never `--flag false`: that is how Go's flags read.
        arg.num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_name(spec.value)
    } else {
        arg.num_args(1).allow_hyphen_values(true).value_name(spec.value)
    }
}

fn without_command_line(
    spec: &'static FlagSpec,
    environment: &Environment,
    ignored: &mut Vec<String>,
) -> RawValue {
    for &name in spec.variables.iter().rev() {
        let Some(text) = environment.get(name) else {
            continue;
        };
        match reads_as(spec.kind, text) {
            Ok(()) => {
                return RawValue { text: text.clone(), source: Source::Variable(name) };
            }
            Err(expected) => {
                let shown = Escaped(text);
                ignored.push(format!("{name}: `{shown}` is ignored: expected {expected}"));
            }
        }
    }
    RawValue { text: spec.default.to_owned(), source: Source::Default(spec.flag) }
}

fn reads_as(kind: FlagKind, text: &str) -> Result<(), &'static str> {
    match kind {
        FlagKind::Bool if go_bool(text).is_none() => Err("true or false"),
        FlagKind::Number if text.parse::<u16>().is_err() => Err("a number from 0 to 65535"),
        FlagKind::Duration if go_duration::parse(text).is_err() => {
            Err("a duration such as 5s or 1m30s")
        }
        _ => Ok(()),
    }
}

/// Reads a truth value as Go's `strconv.ParseBool` does.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Parses a duration; a negative one counts as zero.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let nanoseconds = go_duration::parse(text).ok()?;
    Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default()))
}

/// The name that this program has in Istio.
pub(crate) const SUBCOMMAND: &str = "istio-iptables";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str], environment: &[(&str, &str)]) -> Args {
        let words = std::iter::once("istio-init").chain(line.iter().copied()).map(OsString::from);
        Args::parse(words, &env(environment)).expect("usage")
    }

    fn env(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn text(line: &[&str], environment: &[(&str, &str)], flag: Flag) -> String {
        parse(line, environment).flag(flag).text.clone()
    }

    #[test]
    fn every_long_flag_reads_its_value() {
        for spec in FLAGS {
            let value = match spec.kind {
                FlagKind::Text => "a value",
                FlagKind::Bool => "t",
                FlagKind::Number => "7",
                FlagKind::Duration => "1m30s",
            };
            let args = parse(&[&format!("--{}={value}", spec.long)], &[]);
            assert_eq!(args.flag(spec.flag).text, value);
            assert_eq!(args.flag(spec.flag).source, Source::Flag(spec.flag));
        }
    }

    #[test]
    fn short_flags_accept_every_spelling_of_go() {
        for line in [&["-p", "1"][..], &["-p1"], &["-p=1"], &["-np1"], &["-p", "9", "-p", "1"]] {
            assert_eq!(text(line, &[], Flag::EnvoyPort), "1", "{line:?}");
        }
        for spec in FLAGS.iter().filter(|spec| spec.kind == FlagKind::Text) {
            let Some(short) = spec.short else { continue };
            assert_eq!(text(&[&format!("-{short}x")], &[], spec.flag), "x");
        }
    }

    #[test]
    fn empty_and_dashed_values_are_accepted() {
        assert_eq!(text(&["-x", "", "-p", "1"], &[], Flag::ServiceExcludeCidr), "");
        assert_eq!(text(&["-x", "-b"], &[], Flag::ServiceExcludeCidr), "-b");
    }

    #[test]
    fn switches_take_a_value_only_after_an_equals_sign() {
        assert!(parse(&["--dry-run"], &[]).is_on(Flag::DryRun));
        assert!(parse(&["-n"], &[]).is_on(Flag::DryRun));
        assert!(!parse(&["--dry-run=False"], &[("DRY_RUN", "1")]).is_on(Flag::DryRun));
        let words = ["istio-init", "--dry-run", "false"].map(OsString::from);
        assert!(Args::parse(words, &Environment::new()).is_err());
    }

    #[test]
    fn istio_iptables_argument_is_skipped_once() {
        assert_eq!(text(&["istio-iptables", "-p", "1"], &[], Flag::EnvoyPort), "1");
        let words = ["istio-init", "istio-iptables", "istio-iptables"].map(OsString::from);
        assert!(Args::parse(words, &Environment::new()).is_err());
    }

    #[test]
    fn unknown_flags_and_invalid_switches_are_usage_errors() {
        for line in [&["--no-such"][..], &["-y"], &["--dry-run=yes"], &["--probe-timeout=5"]] {
            let words = std::iter::once("istio-init").chain(line.iter().copied());
            let error = Args::parse(words.map(OsString::from), &Environment::new()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line:?}");
        }
    }

    #[test]
    fn command_line_overrides_every_variable() {
        for spec in FLAGS.iter().filter(|spec| spec.kind == FlagKind::Text) {
            for name in spec.variables {
                let from_env = parse(&[], &[(name, "typed")]);
                assert_eq!(from_env.flag(spec.flag).text, "typed");
                assert_eq!(from_env.flag(spec.flag).source, Source::Variable(name));
                let line = format!("--{}=flag", spec.long);
                assert_eq!(text(&[&line], &[(name, "typed")], spec.flag), "flag");
            }
        }
    }

    #[test]
    fn additional_variable_overrides_the_derived_one() {
        let both = [("DUAL_STACK", "true"), ("ISTIO_DUAL_STACK", "false")];
        assert!(!parse(&[], &both).is_on(Flag::DualStack));
        let second_is_bad = [("DUAL_STACK", "true"), ("ISTIO_DUAL_STACK", "maybe")];
        assert!(parse(&[], &second_is_bad).is_on(Flag::DualStack));
    }

    #[test]
    fn envoy_port_has_no_variable() {
        assert_eq!(text(&[], &[("ENVOY_PORT", "1")], Flag::EnvoyPort), "15001");
    }

    #[test]
    fn empty_variable_counts_as_set() {
        assert_eq!(text(&[], &[("INBOUND_CAPTURE_PORT", "")], Flag::InboundCapturePort), "");
    }

    #[test]
    fn invalid_switches_in_the_environment_warn() {
        let args = parse(&[], &[("DRY_RUN", "yes"), ("PROBE_TIMEOUT", "abc")]);
        assert!(!args.is_on(Flag::DryRun));
        assert_eq!(args.flag(Flag::ProbeTimeout).text, "5s");
        assert_eq!(args.ignored.len(), 2);
        assert_eq!(args.ignored[0], "DRY_RUN: `yes` is ignored: expected true or false");
    }

    #[test]
    fn durations_are_parsed_to_their_length() {
        for (text, millis) in
            [("5s", 5_000), ("1m30s", 90_000), (".5s", 500), ("1.25s", 1_250), ("-1s", 0), ("0", 0)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn durations_have_the_syntax_of_go() {
        for good in ["0", "5s", "1m30s", "-1.5h", "300ms", ".5s", "1us", "1µs"] {
            assert!(duration(good).is_some(), "{good}");
        }
        for bad in ["", "5", "s", "5 s", "1d", "+", "1.2.3s", "."] {
            assert!(duration(bad).is_none(), "{bad}");
        }
    }
}
