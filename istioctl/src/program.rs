//! Names of the program, and its commands under each name.

use std::ffi::OsStr;
use std::path::Path;

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _};

use crate::cli::Cli;
use crate::exit_code::exit_codes;

/// Name under which the program runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Program {
    Istioctl,
    Outrigger,
    /// A file `kubectl-outrigger` in `PATH`: `kubectl outrigger` runs it.
    KubectlPlugin,
    /// A file `kubectl_complete-outrigger` in `PATH`: kubectl asks it to complete the words after
    /// `kubectl outrigger`.
    KubectlCompletion,
}

impl Program {
    /// Returns the name for the first word of a command line.
    pub(super) fn from_path(path: Option<&OsStr>) -> Self {
        match path.and_then(|path| Path::new(path).file_stem()).and_then(OsStr::to_str) {
            Some("outrigger") => Self::Outrigger,
            Some("kubectl-outrigger") => Self::KubectlPlugin,
            Some("kubectl_complete-outrigger") => Self::KubectlCompletion,
            _ => Self::Istioctl,
        }
    }

    /// Returns the name in usage lines, help and examples.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Istioctl => ISTIOCTL,
            Self::Outrigger => "outrigger",
            Self::KubectlPlugin | Self::KubectlCompletion => "kubectl outrigger",
        }
    }

    /// Returns the name of the file that a shell completes.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::KubectlPlugin | Self::KubectlCompletion => "kubectl-outrigger",
            Self::Istioctl | Self::Outrigger => self.name(),
        }
    }

    /// Returns the commands, with their help for this name.
    pub(super) fn command(self) -> Command {
        let command = Cli::command().name(self.name()).bin_name(self.name());
        finished(command, self.name())
    }
}

/// Adds the exit codes to the help of a command and its subcommands, and the name of the program.
fn finished(command: Command, name: &str) -> Command {
    let (written, called) = (format!("{ISTIOCTL} "), format!("{name} "));
    let named = |text: &StyledStr| text.to_string().replace(&written, &called);
    let examples = command.get_after_help().map(|text| named(text) + "\n\n").unwrap_or_default();
    let codes = exit_codes(&command).map(|(code, meaning)| format!("\n  {code:<3}{meaning}"));
    let after_help = format!("{examples}Exit codes:{}", codes.collect::<String>());
    let about = command.get_about().map(named);
    let long_about = command.get_long_about().map(named);
    let command = command.after_help(after_help).mut_args(|arg| {
        let help = arg.get_help().map(named);
        let long_help = arg.get_long_help().map(named);
        let arg = help.into_iter().fold(arg, Arg::help);
        long_help.into_iter().fold(arg, Arg::long_help)
    });
    let command = about.into_iter().fold(command, Command::about);
    let command = long_about.into_iter().fold(command, Command::long_about);
    command.mut_subcommands(|inner| finished(inner, name))
}

/// Name in the texts of the code.
const ISTIOCTL: &str = "istioctl";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_that_of_the_file() {
        for (path, program, name) in [
            ("istioctl", Program::Istioctl, "istioctl"),
            ("/usr/bin/outrigger", Program::Outrigger, "outrigger"),
            ("bin/kubectl-outrigger.exe", Program::KubectlPlugin, "kubectl outrigger"),
            ("kubectl_complete-outrigger", Program::KubectlCompletion, "kubectl outrigger"),
            ("/opt/istioctl-1.28", Program::Istioctl, "istioctl"),
        ] {
            let found = Program::from_path(Some(OsStr::new(path)));
            assert_eq!((found, found.name()), (program, name), "{path}");
        }
        assert_eq!(Program::from_path(None), Program::Istioctl);
    }

    #[test]
    fn grammar_is_consistent_under_every_name() {
        for program in [Program::Istioctl, Program::Outrigger, Program::KubectlPlugin] {
            program.command().debug_assert();
        }
    }

    #[test]
    fn every_optional_value_has_a_default_in_the_help() {
        fn check(command: &Command, path: &str) {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let shown =
                    !arg.get_default_values().is_empty() && !arg.is_hide_default_value_set();
                let optional = arg.get_action().takes_values() && !arg.is_required_set();
                let repeated = help.ends_with("May be repeated");
                let described = help.contains("[default: ");
                let alternative = command.get_groups().any(|group| {
                    group.is_required_set() && group.get_args().any(|id| id == arg.get_id())
                });
                assert!(
                    !optional
                        || shown
                        || described
                        || repeated
                        || alternative
                        || arg.is_positional(),
                    "{path} {arg}: {help}"
                );
            }
            for inner in command.get_subcommands() {
                check(inner, &format!("{path} {}", inner.get_name()));
            }
        }
        let mut command = Program::Istioctl.command();
        command.build();
        check(&command, "istioctl");
    }

    #[test]
    fn help_pages_of_all_commands() {
        fn show(command: &mut Command) {
            let name = command.get_bin_name().unwrap_or_default().replace(' ', "_");
            insta::assert_snapshot!(format!("help_{name}"), command.render_long_help());
            for inner in command.get_subcommands_mut().filter(|it| !it.is_hide_set()) {
                if inner.get_name() != "help" {
                    show(inner);
                }
            }
        }
        let mut command = Program::Istioctl.command().term_width(100);
        command.build();
        show(&mut command);
    }

    #[test]
    fn help_shows_the_name_that_was_called() {
        let mut command = Program::KubectlPlugin.command();
        command.build();
        let tag = command.find_subcommand_mut("tag").unwrap();
        let help = tag.render_long_help().to_string();
        assert!(help.contains("Usage: kubectl outrigger tag"), "{help}");
        assert!(help.contains("  kubectl outrigger tag set prod"), "{help}");
        assert!(!help.contains("istioctl"), "{help}");
    }
}
