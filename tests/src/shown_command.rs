//! Commands in the documentation, and their shown output.

use anyhow::{Context, Result, bail};
use regex::Regex;

use crate::markdown::Part;

/// A command of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct ShownCommand {
    /// Number of its line.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// Output, if the page shows it.
    pub output: Option<String>,
}

impl ShownCommand {
    /// Compares the real output with the shown one. In the page `…` stands for any text within a
    /// line, and a line `...` for any lines. Widths of columns may differ.
    pub fn compare(&self, real: &str) -> Result<()> {
        let shown = self.output.as_deref().unwrap_or_default();
        let real = real.trim_matches('\n');
        if !pattern(shown)?.is_match(&normalized(real)) {
            bail!("it prints\n{real}\n-- but the page shows\n{}", shown.trim_end());
        }
        Ok(())
    }
}

/// Returns the commands of a block in `sh` or `console`.
pub fn commands(part: &Part) -> Vec<ShownCommand> {
    let Part::Code { language, line, text } = part else { return Vec::new() };
    let is_session = match language.as_str() {
        "sh" => false,
        "console" => true,
        _ => return Vec::new(),
    };
    let mut found = Vec::<ShownCommand>::new();
    let mut is_open = false;
    for (line, text) in (*line..).zip(text.lines()) {
        let command = if is_session { text.strip_prefix("$ ") } else { Some(text) };
        match (found.last_mut(), command) {
            (Some(last), _) if is_open => last.text = format!("{}\n{text}", last.text),
            (_, Some(text)) if text.trim().is_empty() || text.starts_with('#') => continue,
            (_, Some(text)) => {
                let output = is_session.then(String::new);
                found.push(ShownCommand { line, text: text.to_owned(), output });
            }
            (Some(ShownCommand { output: Some(output), .. }), None) => {
                output.push_str(text);
                output.push('\n');
                continue;
            }
            _ => continue,
        }
        is_open = found.last().is_some_and(|last| is_incomplete(&last.text));
    }
    found
}

/// True if the shell waits for another line: after a backslash, or in quotation marks.
fn is_incomplete(command: &str) -> bool {
    command.ends_with('\\') || command.matches('\'').count() % 2 == 1
}

fn pattern(shown: &str) -> Result<Regex> {
    let mut pattern = String::from("^");
    for line in shown.trim_matches('\n').lines() {
        if line.trim() == "..." {
            pattern.push_str("(?:.*\n)*?");
            continue;
        }
        let words: Vec<_> = line.split_whitespace().map(regex::escape).collect();
        pattern.push_str(&words.join(" ").replace('…', ".*"));
        pattern.push('\n');
    }
    pattern.push('$');
    Regex::new(&pattern).context("reading a shown output")
}

/// Returns the lines with one space between words.
fn normalized(text: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    text.lines().map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(language: &str, text: &str) -> Vec<(usize, String, Option<String>)> {
        let part = Part::Code { language: language.to_owned(), line: 5, text: text.to_owned() };
        commands(&part).into_iter().map(|one| (one.line, one.text, one.output)).collect()
    }

    #[test]
    fn lines_of_a_command_belong_together() {
        let text = "# first\na \\\n  b\nc '[\n  1]'\n";
        let expected = [(6, "a \\\n  b".to_owned(), None), (8, "c '[\n  1]'".to_owned(), None)];
        assert_eq!(found("sh", text), expected);
    }

    #[test]
    fn session_has_outputs() {
        let expected = [
            (5, "a".to_owned(), Some("x\n\ny\n".to_owned())),
            (9, "b".to_owned(), Some(String::new())),
        ];
        assert_eq!(found("console", "$ a\nx\n\ny\n$ b\n"), expected);
    }

    fn matches(shown: &str, real: &str) -> bool {
        let output = Some(shown.to_owned());
        ShownCommand { line: 1, text: String::new(), output }.compare(real).is_ok()
    }

    #[test]
    fn ellipses_stand_for_text_and_lines() {
        assert!(matches("a  b-…\n...\nz\n", "a b-5x7\nc\nd\nz\n"));
        assert!(matches("a\n...\n", "a\n"));
        assert!(!matches("a\n", "a\nb\n"));
        assert!(!matches("a (b)\n", "a b\n"));
        assert!(!matches("", "a\n"));
    }
}
