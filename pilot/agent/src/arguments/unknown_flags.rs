//! Unknown flags of `proxy`, which old templates pass.

use std::ffi::OsString;

/// Separates the unknown flags from a command line of `proxy`. The word after an unknown flag is
/// its value, unless it is a flag or a role.
pub(super) fn split_unknown(
    command: &clap::Command,
    arguments: Vec<OsString>,
) -> (Vec<OsString>, Vec<String>) {
    let Some(proxy) = command.find_subcommand("proxy") else { return (arguments, Vec::new()) };
    let is_known = |name: &str| {
        let mut args = proxy.get_arguments().chain(command.get_arguments());
        let is_name = |arg: &clap::Arg| match name.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|short| name[1..].starts_with(short)),
        };
        ["--help", "-h"].contains(&name) || args.any(is_name)
    };
    let runs_proxy = arguments.iter().skip(1).find(|word| {
        command.get_subcommands().any(|inner| word.to_str() == Some(inner.get_name()))
    });
    if runs_proxy.and_then(|word| word.to_str()) != Some("proxy") {
        return (arguments, Vec::new());
    }
    let (mut known, mut unknown) = (Vec::with_capacity(arguments.len()), Vec::new());
    let mut words = arguments.into_iter().peekable();
    while let Some(word) = words.next() {
        match word.to_str().and_then(flag_name) {
            Some(name) if !is_known(name) => {
                unknown.push(name.to_owned());
                let is_value = |next: &OsString| {
                    next.to_str().is_none_or(|next| {
                        flag_name(next).is_none() && !["--", "sidecar", "router"].contains(&next)
                    })
                };
                if word == *name {
                    words.next_if(is_value);
                }
            }
            _ => known.push(word),
        }
    }
    (known, unknown)
}

/// Returns the flag of a word: `--domain` of `--domain=x`, `-x` of `-xvalue`. A negative number is
/// none.
fn flag_name(word: &str) -> Option<&str> {
    let name = word.split('=').next()?;
    if name.starts_with("--") {
        return (name != "--").then_some(name);
    }
    let letter = name.strip_prefix('-')?.chars().next().filter(|c| !c.is_ascii_digit())?;
    Some(&name[..=letter.len_utf8()])
}
