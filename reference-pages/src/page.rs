//! Markdown of a page.

use std::fmt::Write as _;

use clap::Command;

use crate::flags;

/// Page in Markdown.
#[derive(Clone, Debug)]
pub struct Page(String);

impl Page {
    /// Starts a page with its title and the note that it is generated.
    pub fn new(title: &str) -> Self {
        Self(format!(
            "# {title}\n\nThis page is generated from the code. `make reference` writes it.\n"
        ))
    }

    /// Adds a heading: level 2 is a section, level 3 a section of it.
    #[must_use]
    pub fn heading(mut self, level: usize, title: &str) -> Self {
        let _ = write!(self.0, "\n{} {title}\n", "#".repeat(level));
        self
    }

    /// Adds a paragraph, in lines of at most 120 columns.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0 += "\n";
        let mut column = 0;
        for word in text.split_whitespace() {
            let length = word.chars().count();
            let (gap, start) = match column {
                0 => ("", 0),
                column if column + 1 + length > WIDTH => ("\n", 0),
                column => (" ", column + 1),
            };
            self.0 += gap;
            self.0 += word;
            column = start + length;
        }
        self.0 += "\n";
        self
    }

    /// Adds a table; nothing if it has no rows.
    #[must_use]
    pub fn table<const N: usize>(mut self, heads: [&str; N], rows: Vec<[String; N]>) -> Self {
        if rows.is_empty() {
            return self;
        }
        let rule = vec!["---"; N].join(" | ");
        let _ = write!(self.0, "\n| {} |\n| {rule} |\n", heads.join(" | "));
        for row in rows {
            let _ = writeln!(self.0, "| {} |", row.map(|cell| escape(&cell)).join(" | "));
        }
        self
    }

    /// Adds the flags of a command and of its subcommands.
    #[must_use]
    pub fn flags(self, command: &Command) -> Self {
        flags::sections(self, command)
    }

    /// Adds the flags of a command that `is_shown` accepts, without a heading.
    #[must_use]
    pub fn flag_table(self, command: &Command, is_shown: impl Fn(&clap::Arg) -> bool) -> Self {
        flags::table(self, command.get_arguments().filter(|arg| is_shown(arg)))
    }

    /// Adds a section with the exit codes of a program.
    #[must_use]
    pub fn exit_codes(self, codes: &[(u8, &str)]) -> Self {
        let rows = codes.iter().map(|(code, meaning)| [code.to_string(), (*meaning).to_owned()]);
        self.heading(2, "Exit codes").table(["code", "meaning"], rows.collect())
    }

    /// Returns the text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Returns text as code in Markdown; nothing for an empty text.
pub fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// Escapes the text of a cell: what would end the cell, and what would be HTML outside code.
fn escape(cell: &str) -> String {
    let cell = cell.replace('|', "\\|").replace('\n', " ");
    let parts = cell.split('`').enumerate();
    let parts = parts.map(
        |(index, part)| {
            if index % 2 == 0 { part.replace('<', "\\<") } else { part.to_owned() }
        },
    );
    parts.collect::<Vec<_>>().join("`")
}

/// Width of a line in columns.
const WIDTH: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped() {
        let page = Page::new("a").table(["b", "c"], vec![["x|y".into(), "<a> `<b>`\n2".into()]]);
        assert!(
            page.into_text().ends_with("| b | c |\n| --- | --- |\n| x\\|y | \\<a> `<b>` 2 |\n")
        );
    }
}
