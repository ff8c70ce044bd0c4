//! Hints of usage errors.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// Returns the text of a usage error. It suggests no hidden flag, and for an unexpected word that is
/// a file, the flag that names files.
pub(super) fn usage_error(mut usage: clap::Error) -> String {
    let suggested = match usage.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => flag.split(['=', ' ']).next().map(str::to_owned),
        _ => None,
    };
    if suggested.is_some_and(|flag| is_hidden(&Cli::command(), &flag)) {
        usage.remove(ContextKind::SuggestedArg);
    }
    if let Some(ContextValue::String(word)) = usage.get(ContextKind::InvalidSubcommand)
        && let Some(path) = inner_command(&Cli::command(), word)
    {
        let hint = format!("  hint: the command is {path}\n");
        usage.remove(ContextKind::SuggestedSubcommand);
        return format!("{}\n{hint}", usage.render().to_string().trim_end());
    }
    let text = usage.render().to_string();
    let invalid = match usage.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if usage.kind() == ErrorKind::UnknownArgument => word,
        _ => return text,
    };
    let reads_files = text.contains("--filename");
    if reads_files && Path::new(invalid).exists() {
        return format!("{}\n  hint: name files with -f: -f {invalid}\n", text.trim_end());
    }
    text
}

/// Returns the name of a command with this one in it, and this one.
fn inner_command(command: &Command, name: &str) -> Option<String> {
    command.get_subcommands().find_map(|outer| {
        let inner = outer.get_subcommands().find(|inner| inner.get_name() == name)?;
        let short = outer.get_visible_aliases().next().unwrap_or(outer.get_name());
        (!inner.is_hide_set()).then(|| format!("{short} {name}"))
    })
}

fn is_hidden(command: &Command, flag: &str) -> bool {
    let is_it = |arg: &clap::Arg| arg.get_long().is_some_and(|long| flag == format!("--{long}"));
    command.get_arguments().any(|arg| arg.is_hide_set() && is_it(arg))
        || command.get_subcommands().any(|inner| is_hidden(inner, flag))
}
