//! Markdown of a page.

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
        self.0 += &format!("\n{} {title}\n", "#".repeat(level));
        self
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.0 += &format!("\n{text}\n");
        self
    }

    /// Adds a table; nothing if it has no rows.
    #[must_use]
    pub fn table<const N: usize>(mut self, heads: [&str; N], rows: Vec<[String; N]>) -> Self {
        if rows.is_empty() {
            return self;
        }
        let rule = vec!["---"; N].join(" | ");
        self.0 += &format!("\n| {} |\n| {rule} |\n", heads.join(" | "));
        for row in rows {
            self.0 += &format!("| {} |\n", row.map(|cell| escape(&cell)).join(" | "));
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

    /// Returns the text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Returns text as code in Markdown; nothing for an empty text.
pub fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// Escapes what would end a cell of a table.
fn escape(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped() {
        let page = Page::new("a").table(["b", "c"], vec![["x|y".into(), "1\n2".into()]]);
        assert!(page.into_text().ends_with("| b | c |\n| --- | --- |\n| x\\|y | 1 2 |\n"));
    }
}
