//! Manual pages of a program and its commands, in `docs/man/`.

use std::collections::BTreeMap;
use std::io;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::{check, files};

/// Compares the manual pages of a program and its visible commands with `docs/man/`, as
/// [`check`] does.
///
/// # Panics
///
/// Panics if a page is not current, cannot be written, or is that of a command that is gone.
pub fn check_manual(program: Command) {
    let name = program.get_name().to_owned();
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = BTreeMap::new();
    collect(&program, &mut pages);
    for (file, page) in &pages {
        check(&format!("man/{file}"), page);
    }
    let is_gone = |file: &String| {
        let of_program = file.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['.', '-']));
        of_program && !pages.contains_key(file)
    };
    let gone: Vec<_> = files("man").into_keys().filter(is_gone).collect();
    assert!(gone.is_empty(), "docs/man has pages of commands that are gone: {gone:?}");
}

/// Adds the page of a command and those of its subcommands.
fn collect(command: &Command, pages: &mut BTreeMap<String, String>) {
    let man = Man::new(command.clone()).manual("Outrigger").source("Outrigger");
    let page = render(&man, command)
        .unwrap_or_else(|error| panic!("{} cannot be rendered: {error}", man.get_filename()));
    pages.insert(man.get_filename(), page);
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(inner, pages);
    }
}

fn render(man: &Man, command: &Command) -> io::Result<String> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(text) = command.get_after_help() {
        further_sections(&text.to_string()).to_writer(&mut page)?;
    }
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    // Each section has the same definitions before it.
    let definitions = Roff::new().render();
    Ok(format!("{definitions}{}", page.replace(&definitions, "")))
}

/// Returns the paragraphs after the flags: a section for each that has a title.
fn further_sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    for paragraph in text.split("\n\n") {
        let (title, lines) = match paragraph.split_once(":\n") {
            Some((title, lines)) if !title.contains(['\n', '.']) => (title.to_uppercase(), lines),
            _ => ("NOTES".to_owned(), paragraph),
        };
        let title = title.replace("EXIT CODES", "EXIT STATUS");
        roff.control("SH", [title.as_str()]).control("nf", []);
        for line in lines.lines() {
            roff.text([roman(line.trim_start())]);
        }
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titled_paragraphs_are_sections() {
        let text = "Examples:\n  a 1\n  b\n\nSee there.\n\nExit codes:\n  0  done";
        let page = further_sections(text).to_roff();
        let expected = ".SH EXAMPLES\n.nf\na 1\nb\n.fi\n.SH NOTES\n.nf\nSee there.\n.fi\n.SH \
                        \"EXIT STATUS\"\n.nf\n0  done\n.fi\n";
        assert_eq!(page, expected);
    }
}
