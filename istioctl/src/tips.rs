//! Removal of suggestions that name hidden flags from usage errors.

use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// Returns the text of a usage error. It suggests no hidden flag.
pub(super) fn without_hidden_flags(mut usage: clap::Error) -> String {
    let suggested = match usage.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => flag.split(['=', ' ']).next().map(str::to_owned),
        _ => None,
    };
    if suggested.is_some_and(|flag| is_hidden(&Cli::command(), &flag)) {
        usage.remove(ContextKind::SuggestedArg);
    }
    usage.render().to_string()
}

fn is_hidden(command: &Command, flag: &str) -> bool {
    let is_it = |arg: &clap::Arg| arg.get_long().is_some_and(|long| flag == format!("--{long}"));
    command.get_arguments().any(|arg| arg.is_hide_set() && is_it(arg))
        || command.get_subcommands().any(|inner| is_hidden(inner, flag))
}
