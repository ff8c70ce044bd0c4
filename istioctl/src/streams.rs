//! Input and outputs of a command, and the style of its messages.

use std::io::{Read, Write};

use clap::builder::styling::{AnsiColor, Style};
use reason::hint::on_lines;

use crate::printable::Lines;

/// Input and outputs of a command.
pub struct Streams<'a> {
    /// Standard input, named `-`.
    pub input: &'a mut dyn Read,
    /// The result of the command, and nothing else.
    pub output: &'a mut dyn Write,
    /// Warnings and errors.
    pub messages: &'a mut dyn Write,
    /// Properties of the outputs.
    pub terminal: Terminal,
    /// True if only errors are written to `messages`.
    pub quiet: bool,
}

/// Properties of outputs that people see.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terminal {
    /// True if the result may have colours.
    pub color_output: bool,
    /// True if messages may have colours.
    pub color_messages: bool,
    /// True if a line of the messages can be overwritten.
    pub progress: bool,
}

impl Terminal {
    /// Applies the flag `--color`, if it is given.
    pub(super) fn apply(&mut self, color: Option<bool>) {
        if let Some(color) = color {
            self.color_output = color;
            self.color_messages = color;
        }
    }
}

impl<'a> Streams<'a> {
    /// Creates streams without colours and progress.
    pub fn new(
        input: &'a mut dyn Read,
        output: &'a mut dyn Write,
        messages: &'a mut dyn Write,
    ) -> Self {
        Self { input, output, messages, terminal: Terminal::default(), quiet: false }
    }

    /// Writes a message, unless the user wants errors only; one that cannot be written is dropped.
    pub(super) fn say(&mut self, message: &str) {
        if !self.quiet {
            self.complain(message);
        }
    }

    /// Writes an error; one that cannot be written is dropped.
    pub(super) fn complain(&mut self, message: &str) {
        let message = on_lines(&Lines(message).to_string());
        let message = if self.terminal.color_messages { colored(&message) } else { message };
        let _ = writeln!(self.messages, "{message}");
    }
}

/// Colours the words that begin the lines of a message.
fn colored(message: &str) -> String {
    let lines = message.split_inclusive('\n').map(|line| {
        let start = line.len() - line.trim_start().len();
        let word = WORDS.iter().find(|(word, _)| line[start..].starts_with(word));
        word.map_or_else(
            || line.to_owned(),
            |(word, color)| {
                let (indent, rest) = (&line[..start], &line[start + word.len()..]);
                format!("{indent}{}{rest}", painted(word, *color))
            },
        )
    });
    lines.collect()
}

/// Returns a bold text in a colour.
pub(super) fn painted(text: &str, color: AnsiColor) -> String {
    let style = Style::new().bold().fg_color(Some(color.into()));
    format!("{style}{text}{style:#}")
}

/// Words at the start of a line, which say the same without their colours.
const WORDS: &[(&str, AnsiColor)] = &[
    ("error:", AnsiColor::Red),
    ("Error:", AnsiColor::Red),
    ("ERROR:", AnsiColor::Red),
    ("warning:", AnsiColor::Yellow),
    ("note:", AnsiColor::Cyan),
    ("hint:", AnsiColor::Green),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_of_a_line_is_colored() {
        let text = "error: no warning: here\n  hint: none";
        let expected = "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m no warning: here\n  \
                        \u{1b}[1m\u{1b}[32mhint:\u{1b}[0m none";
        assert_eq!(colored(text), expected);
    }

    #[test]
    fn quiet_commands_write_errors_alone() {
        let (mut output, mut messages) = (Vec::new(), Vec::new());
        let mut input = std::io::empty();
        let mut streams = Streams::new(&mut input, &mut output, &mut messages);
        streams.quiet = true;
        streams.say("warning: a");
        streams.complain("error: b");
        assert_eq!(messages, b"error: b\n");
    }
}
