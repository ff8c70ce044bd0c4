//! Form of hints: a message says what happened, and then what the user can do.
//!
//! A message has one line, as admission warnings, JSON logs and messages of terminated containers
//! need it. On a terminal each hint has a line of its own.

/// Text between what happened and the hint.
pub const SEPARATOR: &str = "; hint: ";

/// Splits a message into what happened and the hint.
pub fn split(message: &str) -> (&str, Option<&str>) {
    match message.split_once(SEPARATOR) {
        Some((what, hint)) => (what, Some(hint)),
        None => (message, None),
    }
}

/// Returns a message for a terminal: each hint on a line below, indented further.
pub fn on_lines(message: &str) -> String {
    let lines = message.split('\n').map(|line| {
        let indent = line.len() - line.trim_start_matches(' ').len();
        line.replace(SEPARATOR, &format!("\n{:indent$}  hint: ", ""))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_is_split_from_what_happened() {
        assert_eq!(split("a: b; hint: c"), ("a: b", Some("c")));
        assert_eq!(split("a; b"), ("a; b", None));
    }

    #[test]
    fn hints_are_below_their_lines_on_a_terminal() {
        assert_eq!(on_lines("error: a; hint: b"), "error: a\n  hint: b");
        assert_eq!(on_lines("a\n  b; hint: c\n"), "a\n  b\n    hint: c\n");
        assert_eq!(on_lines("a; b"), "a; b");
    }
}
