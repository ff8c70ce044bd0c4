//! Tables of the flags of a `clap::Command`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{Arg, Command, Id};

use crate::Page;
use crate::page::code;

/// Adds the flags of a command, one table for each heading of its help, and those of its
/// subcommands. Hidden flags and commands are left out.
pub(crate) fn sections(page: Page, command: &Command) -> Page {
    let title = if command.has_subcommands() { "Flags of every command" } else { "Flags" };
    let page = headed(page.heading(2, title), command, |_| true);
    subcommands(page, command, "")
}

fn subcommands(mut page: Page, command: &Command, parents: &str) -> Page {
    let inner = || command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let shared = shared(inner());
    let takes = |inner: &&Command| {
        let mut shown = inner.get_arguments().filter(|arg| !arg.is_hide_set());
        shown.any(|arg| shared.contains(arg.get_id()))
    };
    if let Some(first) = inner().find(takes) {
        let names: Vec<_> = inner()
            .filter(takes)
            .map(|inner| code(&format!("{parents}{}", inner.get_name())))
            .collect();
        page = page.heading(2, &format!("Flags of {}", names.join(", ")));
        page = headed(page, first, |arg| shared.contains(arg.get_id()));
    }
    for inner in inner() {
        let name = format!("{parents}{}", inner.get_name());
        if !inner.has_subcommands() {
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            page = page.heading(2, &code(&name)).text(&format!("{}.", sentence(&about)));
            page = headed(page, inner, |arg| !shared.contains(arg.get_id()));
        }
        page = subcommands(page, inner, &format!("{name} "));
    }
    page
}

/// Returns the flags that all commands have that take most of these flags: a group of flags that is
/// repeated. Empty if there are few of them.
fn shared<'a>(commands: impl Iterator<Item = &'a Command>) -> BTreeSet<&'a Id> {
    let mut counts = BTreeMap::<&Id, (usize, BTreeSet<[String; 4]>)>::new();
    let args = commands.flat_map(Command::get_arguments).filter(|arg| !arg.is_hide_set());
    for arg in args {
        let (count, rows) = counts.entry(arg.get_id()).or_default();
        *count += 1;
        rows.insert(row(arg));
    }
    let most = counts.values().map(|(count, _)| *count).max().unwrap_or_default();
    let is_shared = |(count, rows): &(usize, BTreeSet<_>)| *count == most && rows.len() == 1;
    let shared: BTreeSet<_> =
        counts.iter().filter(|(_, counted)| is_shared(counted)).map(|(id, _)| *id).collect();
    if most > 1 && shared.len() >= FEW { shared } else { BTreeSet::new() }
}

/// Adds a table for each heading of the help, in its order, of the flags that `is_shown` accepts.
fn headed(mut page: Page, command: &Command, is_shown: impl Fn(&Arg) -> bool) -> Page {
    let shown: Vec<_> = command.get_arguments().filter(|arg| is_shown(arg)).collect();
    let mut headings = vec![None];
    for arg in &shown {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    for heading in headings {
        let of_heading = |arg: &&&Arg| arg.get_help_heading() == heading;
        let args: Vec<_> = shown.iter().filter(of_heading).copied().collect();
        // A heading above the only flags would say no more than that of the command.
        if let Some(heading) = heading.filter(|_| args.len() < shown.len()) {
            page = page.heading(3, heading);
        }
        page = table(page, args.into_iter());
    }
    page
}

/// Adds a table of flags. Columns without any entry are left out.
pub(crate) fn table<'a>(page: Page, args: impl Iterator<Item = &'a Arg>) -> Page {
    let shown = args.filter(|arg| !arg.is_hide_set());
    let rows: Vec<_> = shown.map(row).collect();
    if rows.iter().all(|[_, variable, ..]| variable.is_empty()) {
        let rows = rows.into_iter().map(|[flag, _, default, meaning]| [flag, default, meaning]);
        return page.table(["flag", "default", "meaning"], rows.collect());
    }
    page.table(["flag", "variable", "default", "meaning"], rows)
}

fn row(arg: &Arg) -> [String; 4] {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let (help, described) = split_default(&help);
    let values: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = match described {
        _ if arg.is_required_set() => "required".to_owned(),
        Some(described) if described.contains(' ') => described.to_owned(),
        Some(described) => code(described),
        None if arg.get_action().takes_values() => code(&values.join(",")),
        None => String::new(),
    };
    let mut meaning = sentence(help);
    let possible = arg.get_possible_values();
    let words: Vec<_> = possible
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| code(value.get_name()))
        .collect();
    if arg.get_action().takes_values() && !words.is_empty() && !arg.is_hide_possible_values_set() {
        let _ = write!(meaning, " ({})", words.join(", "));
    }
    let variable = arg.get_env().map(|name| code(&name.to_string_lossy())).unwrap_or_default();
    [names(arg), variable, default, meaning]
}

/// Returns the spellings of a flag, with the name of its value.
fn names(arg: &Arg) -> String {
    let value = value_name(arg);
    let Some(long) = arg.get_long() else { return code(&value) };
    let optional = arg.get_num_args().is_some_and(|values| values.min_values() == 0);
    let value = match () {
        () if value.is_empty() => value,
        () if optional => format!("[={value}]"),
        () => format!(" {value}"),
    };
    let long = code(&format!("--{long}{value}"));
    arg.get_short().map_or(long.clone(), |short| format!("{}, {long}", code(&format!("-{short}"))))
}

fn value_name(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    match arg.get_value_names() {
        Some([name, ..]) => name.to_string(),
        _ => arg.get_id().as_str().to_uppercase(),
    }
}

/// Splits `[default: …]` from the end of a help text.
fn split_default(help: &str) -> (&str, Option<&str>) {
    let split = help.trim_end_matches('.').rsplit_once(" [default: ");
    match split.and_then(|(help, rest)| Some((help, rest.strip_suffix(']')?))) {
        Some((help, default)) => (help, Some(default)),
        None => (help, None),
    }
}

/// Returns the first sentence, without its full stop.
fn sentence(text: &str) -> String {
    let first = text.split_once(". ").map_or(text, |(first, _)| first);
    first.trim_end_matches('.').to_owned()
}

/// Number of repeated flags from which they have a section of their own.
const FEW: usize = 4;

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    #[test]
    fn repeated_flags_have_their_own_section() {
        let names = ["a", "b", "c", "d"];
        let repeated = |name| Command::new(name).args(names.map(|name| Arg::new(name).long(name)));
        let commands = [repeated("one"), repeated("two").arg(Arg::new("e").long("e"))];
        let text = sections(Page::new("t"), &Command::new("t").subcommands(commands)).into_text();
        assert!(text.contains("## Flags of `one`, `two`\n"), "{text}");
        assert_eq!((text.matches("`--a A`").count(), text.matches("`--e E`").count()), (1, 1));
    }

    #[test]
    fn rows_have_names_variables_defaults_and_meaning() {
        let args = [
            Arg::new("a")
                .long("as")
                .short('a')
                .value_name("X|Y")
                .env("AS")
                .default_value("x")
                .help("Does this. And more"),
            Arg::new("b").long("b").action(ArgAction::SetTrue).help("Switches"),
            Arg::new("c").long("c").help("Names [default: that of --a]"),
            Arg::new("hidden").long("hidden").hide(true),
        ];
        let text = table(Page::new("t"), args.iter()).into_text();
        let rows: Vec<_> = text.lines().skip(6).collect();
        assert_eq!(
            rows,
            [
                "| `-a`, `--as X\\|Y` | `AS` | `x` | Does this |",
                "| `--b` |  |  | Switches |",
                "| `--c C` |  | that of --a | Names |",
            ]
        );
    }
}
